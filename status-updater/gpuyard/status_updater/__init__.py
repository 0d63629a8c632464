"""Watches pods and writes who uses which GPU how much into the topology."""
