"""Carries out on the cluster what the engine decides: evictions, moves, kept places."""
