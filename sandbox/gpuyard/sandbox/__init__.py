"""A real Kubernetes to try and test on: etcd and the control plane as plain processes, nodes played by KWOK.

    cluster = up(Spec(name="mine", nodes=4, gpus=8))
    ...                                   # KUBECONFIG is cluster.kubeconfig
    cluster.restart("kube-scheduler")
    cluster.down()

Everything here blocks; from asyncio call it through `asyncio.to_thread`.
"""

from gpuyard.sandbox.cluster import Cluster as Cluster
from gpuyard.sandbox.errors import SandboxError as SandboxError
from gpuyard.sandbox.lifecycle import down as down
from gpuyard.sandbox.lifecycle import find as find
from gpuyard.sandbox.lifecycle import names as names
from gpuyard.sandbox.lifecycle import up as up
from gpuyard.sandbox.spec import Spec as Spec
