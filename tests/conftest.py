"""What every test shares: the event loop they run on, the real data's folder, the processes that run them, and honesty
about skips."""

import os
import signal
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.dividing import Division, Producer, longest_first

# How fast examples are made, and tried, says how busy the machine is.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")

SKIPS = Path(__file__).parent.parent / ".ci" / "skips"


def pytest_configure() -> None:
    """Let the many processes that tests start keep what they compiled: else each compiles the project anew.

    And let them be interrupted: a shell that starts the tests in its background has them all ignore Ctrl-C's signal.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Half as many again as there are cores: a third of the time, a test waits for what it started."""
    cores = os.cpu_count() or 1
    return cores + cores // 2


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Division | None:
    """The suite's own division, in place of xdist's by file."""
    return Division(config, log) if config.option.dist == "loadfile" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """In the order in which they are best begun."""
    longest_first(items)


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
