"""The topology as NVIDIA's metrics."""
