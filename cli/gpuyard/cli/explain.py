"""`gpuyard explain`: why is my pod pending?"""

from difflib import get_close_matches

import click
from gpuyard.cli.calling import BAD_INPUT, end, reaching
from gpuyard.cli.looking import Look, decided, look, reasoned
from gpuyard.cli.output import page
from gpuyard.cli.situation import page_of, situation
from gpuyard.common.formats import formatted, show
from gpuyard.common.kube.client import Json

_KINDS = ("pod", "pods", "po")


@click.command()
@click.argument("thing", metavar="pod/NAME")
@click.option("-n", "--namespace", default="", help="Where it is (default: as kubectl).")
@formatted
@reaching
def explain(kubeconfig: str, context: str, thing: str, namespace: str, output: str) -> None:
    """Why a pod waits, since when and for what, kube-scheduler's own last word, and what would help.

    What would help was tried on the cluster as it is: with that change and no other the pod runs.
    """
    name = pod_name(thing)
    seen = look(kubeconfig, context)
    raw = _found(seen, namespace or seen.namespace, name)
    key = f"{raw['metadata']['namespace']}/{name}"
    snapshot = seen.snapshot()
    if key not in snapshot.pods:
        end(f"nothing can be said of {key} until what is wrong with it is mended", BAD_INPUT)
    outcome = decided(snapshot, seen.settings)
    reasons = reasoned(snapshot, seen.settings, key, outcome)
    found = situation(raw, snapshot, outcome, reasons)
    show(found, output, lambda: page_of(found, reasons, snapshot, page()))


def pod_name(thing: str) -> str:
    """The pod's name in `pod/NAME` or `NAME`.

    Raises:
        click.BadParameter: another kind is named.
    """
    kind, slash, name = thing.rpartition("/")
    if (slash and kind not in _KINDS) or not name:
        raise click.BadParameter(f"{thing!r} is not pod/NAME; of other things name one of their pods")
    return name


def _found(seen: Look, namespace: str, name: str) -> Json:
    pods = {(p["metadata"]["namespace"], p["metadata"]["name"]): p for p in seen.things if p["kind"] == "Pod"}
    if (namespace, name) in pods:
        return pods[namespace, name]
    if elsewhere := sorted(there for there, other in pods if other == name):
        hint = f"there is one in {', '.join(elsewhere)}: say -n {elsewhere[0]}"
    elif near := get_close_matches(name, sorted(other for there, other in pods if there == namespace), n=3):
        hint = f"did you mean {' or '.join(near)}?"
    else:
        hint = f"`kubectl get pods -n {namespace}` names those that there are"
    return end(f"no pod {name} in namespace {namespace}; {hint}", BAD_INPUT)
