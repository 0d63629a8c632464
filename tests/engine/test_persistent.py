"""A changed mapping has its changes; the one before has none of them, and shares what is the same."""

import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from gpuyard.engine.model.persistent import PersistentMap
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).parents[2]
EMPTY = PersistentMap[str, int]()
SOME = EMPTY.changed({"a": 1, "b": 2})


def test_an_entry_is_new_only_in_the_mapping_that_was_made_with_it() -> None:
    after = SOME.changed({"c": 3})
    assert after == {"a": 1, "b": 2, "c": 3}
    assert SOME == {"a": 1, "b": 2}


def test_an_entry_that_is_none_is_gone() -> None:
    assert SOME.changed({"a": None, "nobody": None}) == {"b": 2}


def test_without_a_change_it_is_the_same_mapping() -> None:
    assert SOME.changed({}) is SOME
    assert SOME.changed({"a": 1, "nobody": None}) is SOME


def test_it_answers_as_any_mapping() -> None:
    assert (SOME["a"], SOME.get("b"), SOME.get("c"), SOME.get("c", 7)) == (1, 2, None, 7)
    assert "a" in SOME
    assert "c" not in SOME
    assert len(SOME) == 2
    assert sorted(SOME) == ["a", "b"]
    assert sorted(SOME.values()) == [1, 2]
    assert sorted(SOME.items()) == [("a", 1), ("b", 2)]
    assert ("a", 1) in SOME.items()
    assert bool(SOME)
    assert not EMPTY


CHANGES = st.dictionaries(st.integers(0, 999), st.one_of(st.none(), st.integers()), max_size=300)


@given(st.lists(CHANGES, max_size=5))
def test_after_any_changes_it_equals_a_dict_that_was_changed_alike(steps: list[dict[int, int | None]]) -> None:
    mapping, plain, earlier = (
        PersistentMap[int, int](),
        dict[int, int](),
        list[tuple[PersistentMap[int, int], dict[int, int]]](),
    )
    for changes in steps:
        earlier.append((mapping, dict(plain)))
        mapping = mapping.changed(changes)
        plain = {key: value for key, value in {**plain, **changes}.items() if value is not None}
        assert mapping == plain
    assert all(before == then for before, then in earlier)


TWENTY_PLANS = """
import sys
from random import Random
import msgspec
from tests.engine.test_properties import planned
for seed in range(20):
    sys.stdout.buffer.write(msgspec.json.encode(planned(Random(seed))[2]))
"""


def test_a_plan_is_the_same_wherever_the_entries_lie() -> None:
    """Python hashes texts differently in each process, unless it is told how."""

    def plans(seed: str) -> bytes:
        return subprocess.run(
            [sys.executable, "-c", TWENTY_PLANS],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            check=True,
        ).stdout

    first = plans("1")
    assert first
    assert plans("2") == first


@pytest.mark.parametrize("seed", range(20))
def test_what_has_changed_since_another_mapping_is_told_entry_by_entry(seed: int) -> None:
    chance = Random(seed)
    before = PersistentMap[str, object]().changed({str(n): object() for n in range(300)})
    changes = {str(chance.randrange(400)): chance.choice([object(), None]) for _ in range(50)}
    after = before.changed(changes)
    told = list(after.changes_since(before))
    expected = [
        (before.get(key), after.get(key)) for key in {**before, **after} if before.get(key) is not after.get(key)
    ]
    assert sorted(told, key=repr) == sorted(expected, key=repr)
    assert list(after.changes_since(after)) == []
