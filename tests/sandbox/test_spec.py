"""A wish that no cluster can fulfil is refused, with the field's name."""

from __future__ import annotations

from typing import Any

import pytest
from gpuyard.sandbox.spec import Spec


def test_without_a_wish_it_is_four_nodes_with_eight_gpus() -> None:
    spec = Spec()
    assert (spec.name, spec.nodes, spec.gpus) == ("default", 4, 8)


@pytest.mark.parametrize("name", ["a", "0", "my-yard-2"])
def test_a_name_is_made_of_small_letters_digits_and_dashes(name: str) -> None:
    assert Spec(name=name).name == name


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", ""),
        ("name", "Big"),
        ("name", "../etc"),
        ("name", "a/b"),
        ("name", "-a"),
        ("name", "x" * 43),
        ("nodes", -1),
        ("gpus", -8),
        ("extender_url", "http://127.0.0.1:1"),
    ],
)
def test_what_no_cluster_can_be_is_refused_by_its_name(field: str, value: Any) -> None:  # noqa: ANN401 - any field's
    with pytest.raises(ValueError, match=f"^{field}: "):
        Spec(**{field: value})
