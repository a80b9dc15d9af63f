"""A failure is told whole, whatever the collector finds meanwhile."""

import gc
from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, object, object]:
    """Collect no garbage while pytest parses the source of what failed.

    Python 3.11 cannot parse while it parses (python/cpython#106905): what the failed test left breaks in its finaliser,
    pytest formats that traceback, which parses a line, and the first parse ends the whole run as an internal error.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return (yield)
    finally:
        if was_enabled:
            gc.enable()
