"""`python -m gpuyard.sandbox` is `gpuyard sandbox`."""

from gpuyard.sandbox.cli import sandbox

sandbox(prog_name="gpuyard sandbox")
