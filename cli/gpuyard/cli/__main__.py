"""`python -m gpuyard.cli`."""

from gpuyard.cli.main import main

main()
