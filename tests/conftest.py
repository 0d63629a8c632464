"""What every test has: the marks of the house (plugins/rows.py), repeatable examples, no event loop but its own."""

import asyncio
import os

import hypothesis
import pytest

pytest_plugins = ["tests.plugins.rows"]

# Otherwise the first who asks for the current loop makes one that nobody closes, and some later test is blamed for it.
asyncio.set_event_loop(None)

# What tests ask over HTTP is on this machine; a proxy of the environment is for the rest of the world.
DIRECT = ",".join(filter(None, (os.environ.get("no_proxy") or os.environ.get("NO_PROXY"), "127.0.0.1,localhost")))
os.environ.update(no_proxy=DIRECT, NO_PROXY=DIRECT)

hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None)
hypothesis.settings.register_profile("searching", deadline=None)


def pytest_configure(config: pytest.Config) -> None:
    """Try the same examples in every run, and new ones only where there is time for them."""
    hypothesis.settings.load_profile("searching" if config.getoption("--soak") else "repeatable")
