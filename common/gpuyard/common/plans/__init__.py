"""The Plan object: what it says, and where it is kept."""
