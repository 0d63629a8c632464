"""The answers to kube-scheduler: `filter`, `prioritize`, `preempt` and `bind`."""
