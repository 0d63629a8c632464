"""What every test has: the marks of the house (plugins/rows.py)."""

pytest_plugins = ["tests.plugins.rows"]
