"""What the processes share: Kubernetes access, leases, settings, logs, own metrics, HTTP plumbing."""
