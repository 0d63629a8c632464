"""The topology as NVIDIA's node labels."""
