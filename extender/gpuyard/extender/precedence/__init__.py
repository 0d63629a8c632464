"""Who goes first where room is scarce, although kube-scheduler asks in an order of its own."""
