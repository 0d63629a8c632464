"""The cycle: who starts, who is evicted or moved for whom, and why the others wait. Start at `cycle`."""
