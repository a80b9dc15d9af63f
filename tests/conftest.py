"""What every test shares: the event loop they run on, the real data's folder, and honesty about skips."""

import os
from collections.abc import Generator
from pathlib import Path

import pytest

SKIPS = Path(__file__).parent.parent / ".ci" / "skips"


@pytest.fixture
def anyio_backend() -> str:
    """asyncio alone: aiohttp and Ray need it."""
    return "asyncio"


@pytest.fixture
def real_data() -> Path:
    """The folder of real data sets; skipped aloud where there is none."""
    folder = os.environ.get("ENVHUB_TEST_DATA")
    if not folder:
        pytest.skip("ENVHUB_TEST_DATA names no folder of real data")
    return Path(folder)


def _allowed() -> list[str]:
    """The beginnings of test ids that may be skipped; `.ci/skips` has one a line, with its reason after a #."""
    lines = (line.partition("#")[0].strip() for line in SKIPS.read_text().splitlines())
    return [line for line in lines if line]


@pytest.hookimpl(wrapper=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Generator[None, object, object]:
    """Name every skipped test that nobody allowed to be skipped."""
    result = yield
    if os.environ.get("CI"):
        for nodeid in _unexpected(terminalreporter):
            terminalreporter.write_line(f"skipped in CI, but not listed in .ci/skips: {nodeid}", red=True)
    return result


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """In CI, a skip that is not listed fails the run."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("CI") and isinstance(reporter, pytest.TerminalReporter) and _unexpected(reporter):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _unexpected(reporter: pytest.TerminalReporter) -> list[str]:
    allowed = _allowed()
    skipped = [report.nodeid for report in reporter.stats.get("skipped", [])]
    return [nodeid for nodeid in skipped if not any(nodeid.startswith(start) for start in allowed)]
