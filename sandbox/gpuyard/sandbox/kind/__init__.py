"""The second ground: a kind cluster with real kubelets, in the Docker engine that answers or in one of our own.

cluster = up(Spec(name="mine", nodes=2))
cluster.load("gpuyard:dev")           # an image of the engine, onto every node
...                                   # KUBECONFIG is cluster.kubeconfig
cluster.down()
"""

from gpuyard.sandbox.kind.cluster import Cluster as Cluster
from gpuyard.sandbox.kind.cluster import down as down
from gpuyard.sandbox.kind.cluster import find as find
from gpuyard.sandbox.kind.cluster import names as names
from gpuyard.sandbox.kind.cluster import up as up
