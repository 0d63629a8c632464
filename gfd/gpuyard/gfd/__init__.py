"""The topology as NVIDIA's node labels: what GPU feature discovery would say if the GPUs were real."""
