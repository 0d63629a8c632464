"""The scheduler extender: answers kube-scheduler's calls by the rules of the queues."""
