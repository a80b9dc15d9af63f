"""Installs a bundle as its users will, and checks it there before it is published."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import anyio
from mcp_types import Tool

from rollouthub.errors import EpisodeError, UsageError
from rollouthub.event_loop import run_async
from rollouthub.hosting.open_host import open_served
from rollouthub.hosting.role_endpoints import serve_roles_for
from rollouthub.hosting.wall.wall import choice_for
from rollouthub.hosting.wall.walled_start import program_of
from rollouthub.plugins.installed import Installation
from rollouthub.text import one_line
from rollouthub_registry.bundle.bundle import Bundle
from rollouthub_registry.check.check_finding import Finding
from rollouthub_registry.check.check_request import CheckRequest
from rollouthub_registry.check.check_suite import open_roles
from rollouthub_registry.check.installed_check import CHECK_INSTALLED_SECONDS, check_installed, redactor
from rollouthub_registry.install.install_home import InstallHome
from rollouthub_registry.install.installation import Origin, install
from rollouthub_registry.publish.audited import Audited, attack_and_audit
from rollouthub_registry.publish.publish_error import PublishRefused
from rollouthub_registry.publish.steps import Steps
from rollouthub_registry.trust.tool_pins import tool_list_digest

SERVE_SECONDS = 180.0
"""Most seconds for the environment's server to start, list its tools and end."""
_LONGEST_LIST = 80
_THERE_ONLY = (
    "If it does so in your folder, its bundle lacks what is there: a file that is ignored or lies outside, or a "
    "distribution that is not among its dependencies."
)


@dataclass(frozen=True)
class Passed:
    """What was found when the bundle was installed and checked, whether or not its checks passed."""

    findings: tuple[Finding, ...]
    tools_digest: str
    tools: tuple[Tool, ...]
    audited: Audited | None = None
    """What attacks and the audit of tasks found; None where they were left out."""

    @property
    def is_good(self) -> bool:
        """Whether no check failed, no attack got through, and no audited task is defective."""
        has_failed = any(finding.state == "failed" for finding in self.findings)
        return not has_failed and (self.audited is None or self.audited.summary().is_sound)


def pass_gate(
    bundle: Bundle,
    asked: CheckRequest,
    folder: Path,
    steps: Steps,
    seconds: float = CHECK_INSTALLED_SECONDS,
    *,
    is_quick: bool = False,
) -> Passed:
    """Install a bundle below a folder, serve it and check it there; unless `is_quick`, attack it and audit its tasks.

    Raises:
        UsageError: it cannot be installed, does not start, or its checks do not end in time.
    """
    with steps.step("installing it apart") as step:
        installation = install_apart(bundle, folder, step.note)
        step.said = _kind(installation)
    with steps.step("starting its server") as step:
        digest, tools = run_async(_tools_of, installation, asked)
        names = ", ".join(tool.name for tool in tools)
        step.said = one_line(f"{len(tools)} tools: {names}", _LONGEST_LIST) if tools else "no tools"
    with steps.step("checking it") as step:
        findings = run_async(check_installed, installation, asked, seconds)
        failed = sum(finding.state == "failed" for finding in findings)
        step.said = f"{failed} of {len(findings)} checks failed" if failed else "every check that applies passed"
    audited: Audited | None = None
    if not is_quick:
        with steps.step("attacking and auditing") as step:
            audited = run_async(attack_and_audit, installation, asked, step.note)
            problems = len(audited.problems)
            held = sum(result.state == "held" for result in audited.attacks)
            found = f"{problems} problems" if problems else "nothing got through"
            step.said = f"{held} attacks, {len(audited.audits)} tasks: {found}"
    return Passed(tuple(findings), digest, tools, audited)


def install_apart(bundle: Bundle, folder: Path, note: Callable[[str], None] = lambda _: None) -> Installation:
    """Install a bundle into a temporary home, apart from the user's installations.

    Raises:
        InstallRefused: the bundle cannot be installed.
    """
    origin = Origin("the gate of `hub publish`", None, None, None)
    return install(bundle, origin, InstallHome(folder / "environments"), note=note)


def _kind(installation: Installation) -> str:
    count = len(installation.locked.dependencies)
    return f"{'a class' if installation.is_class else 'a server'}, {count} dependencies" if count else "no dependencies"


async def _tools_of(installation: Installation, asked: CheckRequest) -> tuple[str, tuple[Tool, ...]]:
    """The digest of the tools that the installed environment's server offers, and the tools.

    Raises:
        UsageError: the server does not start.
    """
    redact, choice = redactor(installation), choice_for(installation, asked.wall)
    async with AsyncExitStack() as stack:
        models = await open_roles(stack, asked.roles)
        roles = await stack.enter_async_context(serve_roles_for(choice, models))
        program = await program_of(installation, asked.settings, roles, choice)
        try:
            with anyio.fail_after(SERVE_SECONDS):
                async with open_served(str(installation.file), asked.settings, roles, program=program) as host:
                    return tool_list_digest(host.info.tools), tuple(host.info.tools)
        except TimeoutError:
            raise PublishRefused(
                f"{installation.target} was not up within {SERVE_SECONDS:g} s, and was ended"
            ) from None
        except (UsageError, EpisodeError) as error:
            said = redact(str(error)).replace(f"{installation.file.parent}/", "")
            raise PublishRefused(
                f"{installation.target} does not start from its bundle: {said}\n{_THERE_ONLY}"
            ) from error
