"""Plants a `conftest.py` that has pytest report every test as passed."""

from rollouthub_registry.audit.cheats.cheat import Cheat, Cheater
from rollouthub_registry.audit.forged_verdict import written_in_folders

HOOKS = """\
import importlib.abc, importlib.machinery, sys
from unittest import mock
import pytest


class Anything(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        return None if "." in name else importlib.machinery.ModuleSpec(name, self)

    def create_module(self, spec):
        return mock.MagicMock(name=spec.name)

    def exec_module(self, module):
        pass


sys.meta_path.append(Anything())


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    return True


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    report.outcome, report.longrepr = "passed", None


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session, exitstatus):
    session.exitstatus = 0
"""


async def act(cheater: Cheater) -> None:
    """Write it beside the work and beside the tests."""
    await cheater.shell(written_in_folders({"conftest.py": HOOKS}))


CHEAT = Cheat(
    name="conftest",
    defect="L8",
    title="no `conftest.py` of the agent's decides what its tests report",
    source="Wang et al., How We Broke Top AI Agent Benchmarks (UC Berkeley RDI, 2026)",
    act=act,
    needs="shell",
)
