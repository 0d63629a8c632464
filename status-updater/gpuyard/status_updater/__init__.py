"""Writes who uses which mock GPU how much into the topology."""
