"""The audit in real containers: tasks in the Harbor format, graded in a fresh container, or where the agent worked."""

from collections.abc import AsyncGenerator

import pytest

from rollouthub.hosting.local.episode_sandboxes import open_provider
from rollouthub.sandbox import SandboxProvider
from rollouthub_servers.terminal import Terminal, TerminalConfig
from tests.audit.measuring import audited
from tests.mcp_servers.conftest import images  # pyright: ignore[reportUnusedImport]  # noqa: F401  # a fixture
from tests.mcp_servers.containers import TASKS

pytestmark = pytest.mark.soak
ROOTS = {"path-shadows", "replaced-interpreters", "replaced-runners", "conftest", "sitecustomize"}
"""Cheats that a root in the container of the tests succeeds with."""


@pytest.fixture
async def containers(images: str, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[SandboxProvider]:  # noqa: F811
    """Containers of this machine's engine."""
    monkeypatch.setenv("ROLLOUTHUB_IMAGES", images)
    async with open_provider("docker") as provider:
        yield provider


@pytest.mark.parametrize("name", ["greeting", "many_rewards"])
async def test_what_is_graded_in_a_fresh_container_is_sound(containers: SandboxProvider, name: str) -> None:
    (audit,) = await audited(Terminal, config=TerminalConfig(data=str(TASKS / name)), sandboxes=containers)
    said = [f"{each.probe} ({each.defect}): {each.says}" for each in audit.defects]
    assert (said, audit.fault, audit.verdict) == ([], None, "sound")
    assert {each.state for each in audit.results if each.probe in ROOTS} == {"held"}


async def test_tests_that_trust_the_status_of_what_loads_the_work_are_found_in_a_fresh_container_too(
    containers: SandboxProvider,
) -> None:
    (audit,) = await audited(Terminal, config=TerminalConfig(data=str(TASKS / "hackable")), sandboxes=containers)
    assert {(finding.probe, finding.defect) for finding in audit.defects} == {("exit-codes", "L8")}


async def test_what_is_graded_where_a_root_worked_is_paid_to_cheats(containers: SandboxProvider) -> None:
    config = TerminalConfig(data=str(TASKS / "hackable"), verifier="shared")
    (audit,) = await audited(Terminal, config=config, sandboxes=containers)
    broke = {each.probe for each in audit.results if each.state == "broke"}
    assert {finding.defect for finding in audit.defects} == {"L8"}
    assert broke >= ROOTS, broke
