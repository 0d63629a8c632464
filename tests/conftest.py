"""What every test has: the marks of the house (plugins/rows.py), and no event loop but its own."""

import asyncio

pytest_plugins = ["tests.plugins.rows"]

# Otherwise the first who asks for the current loop makes one that nobody closes, and some later test is blamed for it.
asyncio.set_event_loop(None)
