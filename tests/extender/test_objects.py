"""What the extender reads of objects beyond the engine's forms."""

import pytest
from gpuyard.common.cluster.objects import Meta

from tests.extender.builders import pod, typed


@pytest.mark.parametrize(
    ("meta", "key"),
    [(Meta(name="p", namespace="ns"), "ns/p"), (Meta(name="node-1"), "node-1"), (Meta(), "")],
)
def test_the_key_names_an_object_as_the_caches_do(meta: Meta, key: str) -> None:
    assert meta.key == key


@pytest.mark.parametrize(("text", "version"), [("17", 17), ("", 0), ("x", 0)])
def test_versions_are_numbers_and_a_missing_one_is_the_oldest(text: str, version: int) -> None:
    assert Meta(resource_version=text).version == version


def test_only_a_refusal_is_a_verdict() -> None:
    assert typed(pod("p")).verdict is None
    assert typed(pod("p", verdict="0/4 nodes")).verdict == "0/4 nodes"
    bare = pod("p") | {"status": None, "spec": None}
    assert typed(bare).verdict is None
    assert not typed(bare).claims_volumes


def test_a_refusal_without_a_message_is_one() -> None:
    thing = pod("p")
    thing["status"]["conditions"] = [{"type": "Ready", "status": "False"}, {"type": "PodScheduled", "status": "False"}]
    assert typed(thing).verdict == ""
