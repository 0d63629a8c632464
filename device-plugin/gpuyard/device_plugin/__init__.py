"""Mock GPUs towards kubelet: NVIDIA's device plugin, with devices that a ConfigMap names."""
