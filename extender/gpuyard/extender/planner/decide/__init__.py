"""What the planner does about it: new plans, and whether they still hold when they are due."""
