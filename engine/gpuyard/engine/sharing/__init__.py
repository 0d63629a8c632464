"""Which card takes a task that asks for a part of one; see `cards`."""
