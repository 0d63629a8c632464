"""Who may start, in what order, and who may take from whom: gates, accounts, fair share, order, gangs, reclaim."""
