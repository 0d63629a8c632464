"""Mock nvidia.com/gpu towards kubelet."""
