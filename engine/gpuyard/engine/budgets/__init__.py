"""The budgets policy: who may run a job on which node, what is moved for it, and what is deleted for it."""
