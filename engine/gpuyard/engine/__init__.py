"""The decision engine: values in, values out. Start at `search.cycle`; its input is `model.snapshot`."""
