"""How a plan is carried out: evictions, moves, and those for whom room is kept."""
