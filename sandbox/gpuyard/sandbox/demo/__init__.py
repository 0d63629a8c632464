"""The demo: queues on the default kube-scheduler, on a cluster of its own; what happens is printed as it happens."""

from gpuyard.sandbox.demo.command import DEFAULT as DEFAULT
from gpuyard.sandbox.demo.command import act as act
