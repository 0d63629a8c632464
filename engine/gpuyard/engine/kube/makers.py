"""The pods that a workload object would make, once its controller sees it: a Job, a Deployment and their like.

Only of objects that are being submitted, so without a uid: the pods of those that exist are there. The controllers'
own names are kept where they are known beforehand; where they have a random end, the pods are counted from 0.

kind                               pods of `x`                     how many
Job, Deployment, ReplicaSet        x-0, x-1                        parallelism, up to completions; replicas
StatefulSet                        x-0, x-1                        replicas, from ordinals.start
JobSet                             x-workers-0-1                   of each replicated job its replicas, each a Job
PyTorchJob, TFJob, …               x-master-0, x-worker-0          replicas of each type
LeaderWorkerSet                    x-0, x-0-1, x-0-2               replicas, each of so many pods
RayCluster                         x-head-0, x-gpus-worker-0       one, and the replicas of each group
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
from gpuyard.engine.kube import objects
from gpuyard.engine.kube.faults import Complain, Fault
from gpuyard.engine.kube.gangs import LWS_INDEX, LWS_NAME
from gpuyard.engine.kube.meta import key_of, labels_of, meta_of, name_of, namespace_of
from gpuyard.engine.kube.objects import Form, Meta, Object, PodSpec, Text
from gpuyard.engine.kube.pod_facts import PodFacts, pod_facts
from gpuyard.engine.kube.pods import owner_of
from gpuyard.engine.kube.workloads import QUEUE, RUNAI_QUEUE

MOST_PODS = 10_000
"""Of one object."""

_MORE_THAN_ENOUGH = MOST_PODS + 1

JOBSET = "jobset.sigs.k8s.io/jobset-name"
_HASH = "pod-template-hash"
_JOB = "batch.kubernetes.io/job-name"
_TRAINING = "training.kubeflow.org/replica-type"
_RAY = "ray.io/node-type"
_LWS_WORKER = "leaderworkerset.sigs.k8s.io/worker-index"

Name = tuple[str, str, str]
"""Namespace, kind and name of an object that makes pods."""


class Template(Form):
    """A pod that is to be made."""

    metadata: Meta | None = None
    spec: PodSpec | None = None


class Ordinals(Form):
    """`spec.ordinals` of a StatefulSet."""

    start: int | None = None


class Group(Form):
    """Pods that are alike: replicas of a training job, workers of a RayCluster or its head."""

    replicas: int | None = None
    min_replicas: int | None = None
    num_of_hosts: int | None = None
    group_name: Text = None
    template: Template | None = None


class LeaderWorker(Form):
    """`spec.leaderWorkerTemplate` of a LeaderWorkerSet."""

    size: int | None = None
    leader_template: Template | None = None
    worker_template: Template | None = None


class RunPolicy(Form):
    """`spec.runPolicy` of a training job."""

    suspend: bool | None = None


class Spec(Form):
    """What all kinds say of the pods that they make."""

    suspend: bool | None = None
    run_policy: RunPolicy | None = None
    replicas: int | None = None
    parallelism: int | None = None
    completions: int | None = None
    ordinals: Ordinals | None = None
    template: Template | None = None
    replicated_jobs: "list[ReplicatedJob] | None" = None
    pytorch: dict[str, Group] | None = msgspec.field(name="pytorchReplicaSpecs", default=None)
    tensorflow: dict[str, Group] | None = msgspec.field(name="tfReplicaSpecs", default=None)
    xgboost: dict[str, Group] | None = msgspec.field(name="xgbReplicaSpecs", default=None)
    jax: dict[str, Group] | None = msgspec.field(name="jaxReplicaSpecs", default=None)
    mpi: dict[str, Group] | None = msgspec.field(name="mpiReplicaSpecs", default=None)
    leader_worker_template: LeaderWorker | None = None
    head_group_spec: Group | None = None
    worker_group_specs: list[Group] | None = None


class JobTemplate(Form):
    """A Job that is to be made."""

    spec: Spec | None = None


class ReplicatedJob(Form):
    """An entry of `spec.replicatedJobs` of a JobSet."""

    name: str
    replicas: int | None = None
    template: JobTemplate | None = None


class Maker(Object):
    """An object of which a controller makes pods."""

    spec: Spec | None = None


class Part(NamedTuple):
    """Pods that are alike but for their number."""

    where: str
    """The field that their template stands in."""
    template: Template | None
    numbers: range
    stem: str = ""
    """What stands between the object's name and the number."""
    labels: Mapping[str, str] = {}
    """What the controller adds and others look at."""


def parts(maker: Maker) -> Iterator[Part]:
    """The pods that an object makes, as far as it has templates for them."""
    spec, name = maker.spec or Spec(), name_of(maker)
    yield from _trained(spec, name)
    yield from _led(spec, name)
    yield from _of_ray(spec)
    for n, job in enumerate(spec.replicated_jobs or ()):
        yield from _jobs(job, f"spec.replicatedJobs[{n}].template.spec.template", name)
    if spec.template is not None:
        first = (spec.ordinals and spec.ordinals.start) or 0
        many = _at_once(spec) if maker.kind == "Job" else _or_one(spec.replicas)
        labels = {_JOB: name, "job-name": name} if maker.kind == "Job" else {}
        yield Part("spec.template", spec.template, range(first, first + many), labels=labels)


def _or_one(number: int | None) -> int:
    return 1 if number is None else number


def _at_once(job: Spec) -> int:
    """How many pods of a Job run side by side."""
    many = _or_one(job.parallelism)
    return many if job.completions is None else min(many, job.completions)


def _jobs(job: ReplicatedJob, where: str, name: str) -> Iterator[Part]:
    spec = (job.template and job.template.spec) or Spec()
    for n in range(min(_or_one(job.replicas), _MORE_THAN_ENOUGH)):
        stem = f"-{job.name}-{n}"
        labels = {JOBSET: name, _JOB: f"{name}{stem}", "job-name": f"{name}{stem}"}
        yield Part(where, spec.template, range(_at_once(spec)), stem, labels)


def _trained(spec: Spec, name: str) -> Iterator[Part]:
    kinds = {"pytorch": spec.pytorch, "tf": spec.tensorflow, "xgb": spec.xgboost, "jax": spec.jax, "mpi": spec.mpi}
    for kind, types in kinds.items():
        for each, group in sorted((types or {}).items()):
            role = each.lower()
            labels = {_TRAINING: role, "training.kubeflow.org/job-name": name}
            where = f"spec.{kind}ReplicaSpecs.{each}.template"
            yield Part(where, group.template, range(_or_one(group.replicas)), f"-{role}", labels)


def _led(spec: Spec, name: str) -> Iterator[Part]:
    both = spec.leader_worker_template
    if both is None:
        return
    leader = both.leader_template or both.worker_template
    where = "spec.leaderWorkerTemplate"
    for n in range(min(_or_one(spec.replicas), _MORE_THAN_ENOUGH)):
        labels = {LWS_NAME: name, LWS_INDEX: str(n)}
        yield Part(f"{where}.leaderTemplate", leader, range(n, n + 1), labels=labels | {_LWS_WORKER: "0"})
        yield Part(f"{where}.workerTemplate", both.worker_template, range(1, _or_one(both.size)), f"-{n}", labels)


def _of_ray(spec: Spec) -> Iterator[Part]:
    if spec.head_group_spec is not None:
        yield Part("spec.headGroupSpec.template", spec.head_group_spec.template, range(1), "-head", {_RAY: "head"})
    for n, group in enumerate(spec.worker_group_specs or ()):
        replicas = group.min_replicas if group.replicas is None else group.replicas
        many = (replicas or 0) * _or_one(group.num_of_hosts)
        stem = f"-{group.group_name or n}-worker"
        yield Part(f"spec.workerGroupSpecs[{n}].template", group.template, range(many), stem, {_RAY: "worker"})


# --- what becomes of them ---


class Submitted(NamedTuple):
    """An object that makes pods, where it was found."""

    source: str
    maker: Maker

    @property
    def name(self) -> Name:
        """Namespace, kind and name."""
        return namespace_of(self.maker), self.maker.kind or "", name_of(self.maker)

    def __str__(self) -> str:
        return f"{self.maker.kind} {key_of(self.maker)}"


class Made(NamedTuple):
    """The pods that are made, and what is to be said of it."""

    pods: Sequence[tuple[str, PodFacts]]
    """With the source of their maker."""
    notes: Sequence[str]
    faults: Sequence[Fault]


def makers_of(pod: Object) -> Iterator[Name]:
    """The objects that have made this pod, the one that people know among them."""
    namespace, labels, owner = namespace_of(pod), labels_of(pod), owner_of(pod)
    if owner is not None:
        yield namespace, owner.kind, owner.name
        if owner.kind == "ReplicaSet" and _HASH in labels:
            yield namespace, "Deployment", owner.name.removesuffix(f"-{labels[_HASH]}")
    for kind, label in (("LeaderWorkerSet", LWS_NAME), ("JobSet", JOBSET)):
        if label in labels and (owner is None or owner.kind != kind):
            yield namespace, kind, labels[label]


def made(submitted: Iterable[Submitted], there: Iterable[tuple[str, Object]]) -> Made:
    """The pods of these objects, but of none that has pods among those that are there, each with its source."""
    pods: list[tuple[str, PodFacts]] = []
    notes: list[str] = []
    faults: list[Fault] = []
    given = list(submitted)
    busy = {name: at for at, one in there if isinstance(one, PodFacts) for name in makers_of(one)} if given else {}
    for each in given:
        if each.name in busy:
            if busy[each.name] != each.source:
                notes.append(f"{each.source}: {each}: it is there already, by its pods in {busy[each.name]}")
            continue

        def complain(field: str, why: str, each: Submitted = each) -> None:
            faults.append(Fault(each.source, str(each), field, why))

        new = [(each.source, pod) for pod in _pods(each.maker, complain)]
        pods += new
        notes += [f"{each.source}: {each}: {note}" for note in _noted(each.maker, len(new))]
    return Made(pods, notes, faults)


def _noted(maker: Maker, pods: int) -> Iterator[str]:
    templates = [part.template for part in parts(maker) if part.template]
    if not templates:
        yield "none of its pods is given, and it has no template to make them of"
    elif not pods:
        yield "it makes no pods: it is suspended, or asks for none"
    for label in (QUEUE, RUNAI_QUEUE):
        if templates and label in labels_of(maker) and not any(label in _labels(each) for each in templates):
            yield f"its own label {label} puts no pod into a queue: write it into the template's metadata"


def _labels(template: Template) -> Mapping[str, str]:
    return (template.metadata and template.metadata.labels) or {}


def _pods(maker: Maker, complain: Complain) -> Iterator[PodFacts]:
    spec = maker.spec or Spec()
    if spec.suspend or (spec.run_policy and spec.run_policy.suspend):
        return
    if not name_of(maker):
        complain("metadata.name", "missing")
        return
    left = MOST_PODS
    for part in parts(maker):
        left -= len(part.numbers)
        if left < 0:
            complain(part.where, f"more than {MOST_PODS} pods of one object")
            return
        for n in part.numbers if part.template else ():
            yield pod_facts(_pod(maker, part, n), _below(part.where, complain))


def _below(where: str, complain: Complain) -> Complain:
    return lambda field, why: complain(f"{where}.{field}", why)


def _pod(maker: Maker, part: Part, number: int) -> objects.Pod:
    """A pod as its controller writes it."""
    template = part.template or Template()
    meta = template.metadata or Meta()
    owner = objects.Owner(kind=maker.kind or "", name=name_of(maker), controller=True)
    return objects.Pod(
        kind="Pod",
        metadata=Meta(
            name=f"{name_of(maker)}{part.stem}-{number}",
            namespace=meta_of(maker).namespace,
            labels={**_labels(template), **part.labels},
            annotations=meta.annotations,
            owner_references=[owner],
        ),
        spec=template.spec,
    )
