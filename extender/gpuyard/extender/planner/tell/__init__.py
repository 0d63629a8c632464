"""What users are told: Events, the status of queues, why pods wait."""
