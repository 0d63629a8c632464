"""Our CRDs keep what those of KAI Scheduler keep, so that objects made under the one are good under the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml
from gpuyard.sandbox.rendering import MANIFESTS

from tests.cluster import peer

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]


def schema(crd: Json) -> Json:
    """The schema of its only version, and what else decides how objects are kept."""
    [version] = crd["spec"]["versions"]
    assert (version["served"], version["storage"], version["subresources"]) == (True, True, {"status": {}})
    return version["schema"]["openAPIV3Schema"]  # type: ignore[no-any-return]


def kept(found: Json, path: str = "") -> Iterator[tuple[str, str]]:
    """Each field that the API server keeps, with its type; what is below a free map or field is free, too."""
    yield path, "any" if found.get("x-kubernetes-preserve-unknown-fields") else found.get("type", "any")
    for name, inner in found.get("properties", {}).items():
        yield from kept(inner, f"{path}.{name}")
    if "items" in found:
        yield from kept(found["items"], f"{path}[]")


@pytest.mark.parametrize("theirs", peer.CRDS, ids=lambda crd: crd["metadata"]["name"])
def test_each_field_of_the_peer_is_kept_as_what_it_is(theirs: Json) -> None:
    ours = yaml.safe_load((MANIFESTS / "crds" / f"{theirs['metadata']['name']}.yaml").read_text())
    for key in ("group", "scope"):
        assert ours["spec"][key] == theirs["spec"][key]
    assert ours["spec"]["names"].items() >= theirs["spec"]["names"].items()
    assert ours["spec"]["versions"][0]["name"] == theirs["spec"]["versions"][0]["name"]
    known = dict(kept(schema(ours)))
    free = tuple(path for path, kind in known.items() if kind == "any" and path)
    lost = {path: kind for path, kind in kept(schema(theirs)) if not path.startswith(free) and known.get(path) != kind}
    assert lost == {}
