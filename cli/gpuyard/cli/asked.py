"""Which pods somebody means: one by its name, or all of an object that makes them: `job/train`, `team-a/train`."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches

from gpuyard.engine.kube.makers import Name, makers_of
from gpuyard.engine.kube.meta import name_of, namespace_of
from gpuyard.engine.kube.objects import Object

POD = "Pod"
_SHORT = {POD: "po", "Deployment": "deploy", "StatefulSet": "sts", "ReplicaSet": "rs", "LeaderWorkerSet": "lws"}


class Unknown(LookupError):  # noqa: N818 - reads as what it says of the name
    """Nobody has this name, or several have."""

    def __init__(self, text: str, why: str) -> None:
        self.text = text
        super().__init__(why)


def meant(
    pods: Iterable[Object],
    asked: Sequence[str],
    namespace: str = "",
    submitted: Collection[Name] = (),
    *,
    said: bool = False,
) -> Mapping[str, tuple[str, ...]]:
    """The pods that are meant by each text, by their keys; raises `Unknown` for one that means none, or too many.

    Of several that have a name the one that is being submitted is meant, then the one in `namespace`. Where that was
    `said`, neither comes before the other.
    """
    teams = defaultdict[Name, list[str]](list)
    for pod in pods:
        for name in ((namespace_of(pod), POD, name_of(pod)), *makers_of(pod)):
            teams[name].append(f"{namespace_of(pod)}/{name_of(pod)}")

    def nearest(found: list[Name]) -> list[Name]:
        new = [name for name in found if name in submitted]
        there = [name for name in found if name[0] == namespace]
        both = [name for name in new if name in there]
        return both or (new + there if said else new or there) or found

    return {text: tuple(sorted(teams[_one(teams, text, nearest)], key=_counted)) for text in asked}


def _counted(pod: str) -> tuple[int, str]:
    """So that train-2 stands before train-10."""
    return len(pod), pod


def _one(teams: Mapping[Name, Sequence[str]], text: str, nearest: Callable[[list[Name]], list[Name]]) -> Name:
    before, slash, last = text.rpartition("/")
    said = f"{before.lower()}{slash}{last}"
    found = [name for name in teams if name[2] == last and said in _called(*name)]
    # A pod comes before what has made it: both may be `team-a/train`.
    found = nearest([name for name in found if name[1] == POD and f"{name[0]}/{last}" == said] or found)
    if len(found) > 1:
        names = sorted(f"{there}/{kind.lower()}/{last}" for there, kind, _ in found)
        raise Unknown(text, f"it may be {' or '.join(names)}: say which")
    if not found:
        near = get_close_matches(text, {f"{namespace}/{name}" for namespace, _, name in teams}, n=1)
        hint = f"; did you mean {near[0]}?" if near else ", nor anything of that name that makes pods"
        raise Unknown(text, f"there is no such pod in the input{hint}")
    return found[0]


def _called(namespace: str, kind: str, name: str) -> Iterator[str]:
    yield f"{namespace}/{name}"
    for each in (kind.lower(), f"{kind.lower()}s", _SHORT.get(kind, kind.lower())):
        yield f"{each}/{name}"
        yield f"{namespace}/{each}/{name}"
