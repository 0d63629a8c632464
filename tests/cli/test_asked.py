"""Which pods are meant: by their own name, or by that of what makes them."""

from typing import Any

import pytest
from gpuyard.cli.asked import Unknown, meant

from tests.engine.kube.written import harvest, pod, with_meta


def owned(name: str, kind: str, owner: str, namespace: str = "a") -> dict[str, Any]:
    return with_meta(pod(name, namespace=namespace), ownerReferences=[{"kind": kind, "name": owner}])


PODS = [
    *(owned(f"train-{n}", "Job", "train") for n in (1, 0)),
    owned("web-0", "Deployment", "web"),
    owned("web-1", "StatefulSet", "web"),
    owned("same-0", "Job", "same"),
    owned("same-0", "Job", "same", "b"),
    pod("train", namespace="job"),
    pod("bare", namespace="b"),
    owned("bare-0", "Job", "bare", "b"),
]
FOUND = [one.object for one in harvest(*PODS).found]


@pytest.mark.parametrize(
    ("text", "pods"),
    [
        ("a/train-0", ["a/train-0"]),
        ("pod/train-0", ["a/train-0"]),
        ("a/train", ["a/train-0", "a/train-1"]),
        ("jobs/train", ["a/train-0", "a/train-1"]),
        ("a/job/train", ["a/train-0", "a/train-1"]),
        ("job/train", ["job/train"]),
        ("deploy/web", ["a/web-0"]),
        ("sts/web", ["a/web-1"]),
        ("b/same", ["b/same-0"]),
        ("b/bare", ["b/bare"]),
        ("b/job/bare", ["b/bare-0"]),
    ],
)
def test_pods_are_meant_by_name_or_by_what_makes_them(text: str, pods: list[str]) -> None:
    assert meant(FOUND, [text]) == {text: tuple(pods)}


@pytest.mark.parametrize("text", ["a/deployment/web", "a/Deployment/web", "A/DEPLOYMENT/web", "Deploy/web"])
def test_what_an_error_advises_to_say_is_understood_in_any_case(text: str) -> None:
    assert meant(FOUND, [text]) == {text: ("a/web-0",)}


@pytest.mark.parametrize("there", ["a", "b"])
def test_of_several_teams_the_one_whose_namespace_is_said_is_meant(there: str) -> None:
    assert meant(FOUND, ["job/same"], there) == {"job/same": (f"{there}/same-0",)}


def test_of_several_teams_the_one_that_is_being_submitted_is_meant() -> None:
    new = {("b", "Job", "same")}
    for usual in ("a", "b", "c"):
        assert meant(FOUND, ["job/same"], usual, new) == {"job/same": ("b/same-0",)}
    for said in ("b", "c"):
        assert meant(FOUND, ["job/same"], said, new, said=True) == {"job/same": ("b/same-0",)}


def test_of_several_that_are_being_submitted_the_namespace_says_which_is_meant() -> None:
    both = {("a", "Job", "same"), ("b", "Job", "same")}
    for said in (False, True):
        assert meant(FOUND, ["job/same"], "a", both, said=said) == {"job/same": ("a/same-0",)}


def test_where_another_one_is_being_submitted_than_the_namespace_says_it_is_to_be_said_which() -> None:
    with pytest.raises(Unknown, match="it may be a/job/same or b/job/same: say which"):
        meant(FOUND, ["job/same"], "a", {("b", "Job", "same")}, said=True)


def test_pods_are_counted_as_people_count() -> None:
    many = [one.object for one in harvest(*(owned(f"j-{n}", "Job", "j") for n in (10, 2))).found]
    assert meant(many, ["a/j"])["a/j"] == ("a/j-2", "a/j-10")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a/trian", "there is no such pod in the input; did you mean a/train?"),
        ("zzz", "there is no such pod in the input, nor anything of that name that makes pods"),
        ("a/web", "it may be a/deployment/web or a/statefulset/web: say which"),
        ("job/same", "it may be a/job/same or b/job/same: say which"),
    ],
)
def test_what_means_nobody_or_several_is_told(text: str, why: str) -> None:
    with pytest.raises(Unknown, match=why.replace("?", r"\?")) as told:
        meant(FOUND, [text])
    assert told.value.text == text
