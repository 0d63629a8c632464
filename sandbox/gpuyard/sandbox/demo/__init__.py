"""`gpuyard demo`: two teams, one cluster, the default kube-scheduler; what happens is printed as it happens."""

from gpuyard.sandbox.demo.command import demo as demo
