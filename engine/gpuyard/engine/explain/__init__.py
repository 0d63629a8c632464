"""What `explain`, `top` and the advice say, as values and in words."""
