"""What the planner looks at: the ledger, budgets, dips of capacity, and how far its plans have come."""
