"""`gpuyard explain`: why is my pod pending?"""

from difflib import get_close_matches
from time import time

import click
from gpuyard.cli.asked import POD, Unknown
from gpuyard.cli.calling import BAD_INPUT, calling, end, reaching
from gpuyard.cli.glimpse import glimpse
from gpuyard.cli.looking import Look, decided, look_with, reasoned
from gpuyard.cli.output import page
from gpuyard.cli.situation import Situation, glimpse_of, page_of, situation
from gpuyard.common.formats import formatted, show
from gpuyard.common.kube.client import Client, Json
from gpuyard.common.kube.errors import AccessError, ApiError
from gpuyard.engine.model.snapshot import Snapshot

_POD = ("", "pod", "pods", "po")


@click.command()
@click.argument("thing", metavar="KIND/NAME")
@click.option("-n", "--namespace", default="", help="The namespace of the object (default: as kubectl).")
@formatted
@reaching
def explain(kubeconfig: str, context: str, thing: str, namespace: str, output: str) -> None:
    """Show why a pod waits, since when, kube-scheduler's last message, and what would help.

    KIND/NAME is pod/NAME, or job/NAME, deployment/NAME, ...: of its pods the first one that waits. What would help was
    tried on a copy of the cluster: with that change and no other the pod runs. With namespace-only access, only the
    pod and its Events are shown.
    """
    kind, name = kind_and_name(thing)
    named = f"{POD if kind in _POD else kind}/{name}"

    async def work(client: Client) -> Look | Situation:
        try:
            return await look_with(client)
        except AccessError as error:
            there = namespace or client.access.namespace
            return await _glimpse(client, there, named, error)

    seen = calling(work, kubeconfig, context)
    if isinstance(seen, Situation):
        show(seen, output, lambda: glimpse_of(seen, int(time()), page()))
        return
    namespace = namespace or seen.namespace
    snapshot, team = _pod(seen, namespace, name) if kind in _POD else _team(seen, namespace, thing)
    outcome = decided(snapshot, seen.settings)
    waiting = [pod for pod in team if snapshot.pods[pod].waits]
    key = next((pod for pod in waiting if pod in outcome.pending), (waiting or team)[0])
    if len(team) > 1:
        click.echo(f"{thing} has {len(team)} pods, {len(waiting)} of them waiting: this is {key}", err=True)
    reasons = reasoned(snapshot, seen.settings, key, outcome)
    found = situation(_raw(seen)[key], snapshot, outcome, reasons)
    show(found, output, lambda: page_of(found, reasons, snapshot, page()))


async def _glimpse(client: Client, namespace: str, named: str, error: AccessError) -> Situation:
    try:
        found = await glimpse(client, namespace, f"{namespace}/{named}".lower(), int(time()))
    except Unknown:
        end(
            f"there is no pod of {named.lower()}; `kubectl get pods -n {namespace}` names those that there are",
            BAD_INPUT,
        )
    except ApiError:
        raise error from None
    click.echo(f"{error}; so what follows is what the pod and its Events say, without what would help", err=True)
    return found


def kind_and_name(thing: str) -> tuple[str, str]:
    """The two parts of `KIND/NAME`; the kind in lower case, empty for `NAME`.

    Raises:
        click.BadParameter: there is no name, or more than that.
    """
    kind, slash, name = thing.partition("/")
    if not name and not slash:
        kind, name = "", thing
    if not name or "/" in name or (slash and not kind):
        raise click.BadParameter(f"{thing!r} is not KIND/NAME, as pod/train-7 or job/train; -n says where it is")
    return kind.lower(), name


def _raw(seen: Look) -> dict[str, Json]:
    """The pods as the API server has them, by key."""
    pods = (thing for thing in seen.things if thing["kind"] == "Pod")
    return {f"{pod['metadata']['namespace']}/{pod['metadata']['name']}": pod for pod in pods}


def _pod(seen: Look, namespace: str, name: str) -> tuple[Snapshot, list[str]]:
    key = f"{namespace}/{name}"
    if key not in (known := _raw(seen)):
        end(f"no pod {name} in namespace {namespace}; {_hint(known, namespace, name)}", BAD_INPUT)
    snapshot = seen.snapshot()
    if key not in snapshot.pods:
        end(f"nothing can be said of {key} until what is wrong with it is mended", BAD_INPUT)
    return snapshot, [key]


def _team(seen: Look, namespace: str, thing: str) -> tuple[Snapshot, list[str]]:
    try:
        return seen.asked(f"{namespace}/{thing.lower()}")
    except Unknown:
        hint = "name a pod, or what made pods: a Job, a Deployment, a PyTorchJob and their like"
        end(f"{thing} has no pods in namespace {namespace}; {hint}", BAD_INPUT)


def _hint(pods: dict[str, Json], namespace: str, name: str) -> str:
    known = [key.partition("/")[::2] for key in pods]
    if elsewhere := sorted(there for there, other in known if other == name):
        return f"there is one in {', '.join(elsewhere)}: say -n {elsewhere[0]}"
    if near := get_close_matches(name, sorted(other for there, other in known if there == namespace), n=3):
        return f"did you mean {' or '.join(near)}?"
    return f"`kubectl get pods -n {namespace}` names those that there are"
