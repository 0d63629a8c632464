"""The topology as NVIDIA's metrics: what dcgm-exporter would say if the GPUs were real."""
