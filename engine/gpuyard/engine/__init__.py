"""The decision engine: values in, values out. Start at `plan`, the cycle; its input is `model` and `snapshot`."""
