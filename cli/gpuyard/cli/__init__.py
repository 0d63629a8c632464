"""The commands `gpuyard` and `kubectl gpuyard`."""
