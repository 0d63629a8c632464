"""GPU jobs with team budgets, as a library: start at `manager`. It needs no Kubernetes."""
