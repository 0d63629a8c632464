"""What every test has: the marks of the house (plugins/rows.py), and no event loop that nobody closes."""

import asyncio

pytest_plugins = ["tests.plugins.rows"]


def pytest_configure() -> None:
    # pytest-asyncio asks for the main thread's loop, which makes one where none was ever set; it is then never closed.
    asyncio.set_event_loop(None)
