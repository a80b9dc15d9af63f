"""What every test shares: the event loop they run on, the real data's folder, the processes that run them, and honesty
about skips."""

import gc
import os
import signal
import sys
from collections.abc import Generator
from pathlib import Path

import anyio
import pytest
from hypothesis import HealthCheck, settings

from rollouthub.errors import ConfigError, SandboxError
from rollouthub.hosting.wall.wall import open_wall
from rollouthub.sandbox import SandboxSpec
from rollouthub_sandboxes.process import process_provider
from rollouthub_sandboxes.process.walled_program import WALLS, namespaces_problem
from tests.dividing import Division, Producer, longest_first, turned
from tests.skips import unexpected_skips
from tests.slow import mark_slow
from tests.smoke import is_left_out, mark_smoke
from tests.whole_reports import pytest_runtest_makereport  # pyright: ignore[reportUnusedImport]  # noqa: F401  # a hook

# How fast examples are made, and tried, says how busy the machine is.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")

ROOT = Path(__file__).parent.parent
UNEXPECTED_SKIP = 16


def pytest_configure() -> None:
    """Let the many processes that tests start keep what they compiled: else each compiles the project anew.

    And let them be interrupted: a shell that starts the tests in its background has them all ignore Ctrl-C's signal.
    """
    gc.disable()  # a sixth of the time in which tests are collected, and none of them is garbage
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    if namespaces_problem() is not None:  # foreign code in tests is the tests' own
        os.environ.setdefault(WALLS, "none")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Twice as many as there are cores: half of the time, a test waits for what it started."""
    return 2 * (os.cpu_count() or 1)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Division | None:
    """The suite's own division, in place of xdist's by file."""
    return Division(config, log) if config.option.dist == "loadfile" else None


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Read no file of which nothing is asked for."""
    inside = collection_path.relative_to(ROOT) if collection_path.is_relative_to(ROOT) else None
    return True if inside is not None and is_left_out(config, str(inside)) else None


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Each process begins with other folders."""
    report = yield
    if collector.nodeid == "tests":
        report.result = turned(report.result or [], collector.config)
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In the order in which they are best begun; the smoke and what is slow are marked before marks choose."""
    mark_smoke(config, items)
    mark_slow(config, items)
    longest_first(items)


def pytest_collection_finish() -> None:
    """Leave what is collected out of what the tests' own garbage is looked for in."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def walled() -> None:
    """Skip where installed environments cannot be put behind a wall: there they are refused."""
    try:
        anyio.run(open_wall, "auto")
    except ConfigError as error:
        pytest.skip(f"no container engine, and bubblewrap does not work here: {error}")


@pytest.fixture
def anyio_backend() -> str:
    """asyncio alone: aiohttp and Ray need it."""
    return "asyncio"


@pytest.fixture(scope="session")
def namespaces() -> None:
    """Sandboxes of processes with files of their own; skipped aloud where there are none."""

    async def ask() -> None:
        async with process_provider(("namespaces",)) as provider:
            await provider.prepare(SandboxSpec())

    try:
        anyio.run(ask)
    except SandboxError as error:
        pytest.skip(f"namespaces cannot be had here: {error}")


@pytest.fixture
def real_data() -> Path:
    """The folder of real data sets; skipped aloud where there is none."""
    folder = os.environ.get("ROLLOUTHUB_TEST_DATA")
    if not folder:
        pytest.skip("ROLLOUTHUB_TEST_DATA names no folder of real data")
    return Path(folder)


@pytest.hookimpl(wrapper=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Generator[None, object, object]:
    """Name every skipped test that nobody allowed to be skipped."""
    result = yield
    for told in _unexpected(terminalreporter):
        terminalreporter.write_line(told, red=True)
    return result


def pytest_unconfigure() -> None:
    """End without a walk over all that the tests have loaded."""
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """In CI, a skip that is not listed fails the run, with a code of its own: playing failures again mends none."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if isinstance(reporter, pytest.TerminalReporter) and _unexpected(reporter):
        session.exitstatus = UNEXPECTED_SKIP


def _unexpected(reporter: pytest.TerminalReporter) -> list[str]:
    return unexpected_skips(reporter.stats.get("skipped", []), os.environ.get("CI", ""))
