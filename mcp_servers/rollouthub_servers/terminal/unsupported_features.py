"""Features of the Harbor format that are refused by name because they are not supported."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from rollouthub.errors import DataError
from rollouthub_servers.terminal.config import TerminalConfig
from rollouthub_servers.terminal.containers import build_folder, is_in_place, verifier_folder, verifier_world
from rollouthub_servers.terminal.harbor import HarborTask, Step
from rollouthub_servers.terminal.harbor.settings import ContainerSettings
from rollouthub_servers.terminal.harbor.task import INSTRUCTION, TEST_SCRIPT
from rollouthub_servers.terminal.harbor.templates import MissingVariable, filled_in
from rollouthub_servers.terminal.network_policy import NetworkRefused, resolve_network

_COMPOSE = "docker-compose.yaml"
"""The only compose file name in the Harbor format; files with other names are data of the task."""


def refusals(task: HarborTask, config: TerminalConfig, caller: Mapping[str, str]) -> list[str]:
    """Reasons why a task cannot be run, each with file and key; empty if it can."""
    found = [f"task.toml: {why}" for why in _of_settings(task, config)]
    found += [f"task.toml: {why}" for why in _of_variables(task, caller)]
    found += list(_of_files(task, config))
    return list(dict.fromkeys(found))


def _of_settings(task: HarborTask, config: TerminalConfig) -> Iterator[str]:
    settings = task.settings
    yield from _of_world(settings.environment, "environment")
    agent_networks: set[str] = set()
    for step in task.steps:
        section = step.section
        where = "" if step.name is None else f"[[steps]] {step.name!r}: "
        try:
            agent = section.agent if section.agent.network_mode is not None else settings.agent
            agent_networks.add(resolve_network(settings.environment, agent, config.network, "agent"))
            verifier = section.verifier if section.verifier.network_mode is not None else settings.verifier
            resolve_network(verifier_world(task, step), verifier, config.network_of_tests, "verifier")
        except NetworkRefused as error:
            yield f"{where}{error}"
        for verifier in {id(part): part for part in (section.verifier, settings.verifier)}.values():
            if verifier.environment is not None:
                yield from (f"{where}{why}" for why in _of_world(verifier.environment, "verifier.environment"))
            for hook in verifier.collect:
                if hook.service != "main":
                    yield f"{where}[[verifier.collect]] service = {hook.service!r}: there are no sidecars"
        for entry in task.artifacts(step):
            if entry.service not in (None, "main"):
                yield f"{where}artifacts: service = {entry.service!r}: there are no sidecars"
    if config.profile == "hardened" and any(is_in_place(task, step, config) for step in task.steps):
        yield "[verifier] environment_mode = 'shared': root must put the tests there; add --set verifier=fresh"
    if len(agent_networks) > 1:
        yield "[[steps]] agent.network_mode: steps share a container, whose network does not change"


def _of_world(world: ContainerSettings, section: str) -> Iterator[str]:
    if world.os.lower() != "linux":
        yield f"[{section}] os = {world.os!r}: containers are Linux only"
    if world.gpus:
        yield f"[{section}] gpus = {world.gpus}: GPUs are not offered"
    elif world.gpu_types:
        yield f"[{section}] gpu_types: GPUs are not offered"
    if world.tpu is not None:
        yield f"[{section}] tpu: TPUs are not offered"
    if world.mcp_servers:
        names = ", ".join(repr(server.get("name", "?")) for server in world.mcp_servers)
        yield f"[[{section}.mcp_servers]] {names}: MCP servers beside the task are not offered"
    if world.skills_dir is not None:
        yield f"[{section}] skills_dir: handing skills to an agent is not offered"


def _of_variables(task: HarborTask, caller: Mapping[str, str]) -> Iterator[str]:
    settings = task.settings
    tables = {"environment": settings.environment.env, "verifier": settings.verifier.env}
    for step in task.steps:
        if step.name is not None:
            tables[f"steps.{step.name}.verifier"] = step.section.verifier.env
        if (world := step.section.verifier.environment or settings.verifier.environment) is not None:
            tables["verifier.environment"] = world.env
    for section, table in tables.items():
        try:
            filled_in(table, caller)
        except MissingVariable as error:
            yield f"[{section}] {error}"


def _of_files(task: HarborTask, config: TerminalConfig) -> Iterator[str]:
    folder = task.folder
    for place in ("environment", "tests"):
        if (folder / place / _COMPOSE).exists() and f"{place}/{_COMPOSE}" not in config.ignore:
            yield f"{place}/{_COMPOSE}: several containers for one task are not offered"
    if (folder / "trajectory.json").exists():
        yield "trajectory.json: starting from an earlier conversation is not offered"
    if task.settings.environment.docker_image is None and build_folder(task) is None:
        yield "environment/Dockerfile is missing, and task.toml names no [environment] docker_image"
    for step in task.steps:
        yield from _of_step(task, step)


def _of_step(task: HarborTask, step: Step) -> Iterator[str]:
    place = "" if step.name is None else f"steps/{step.name}/"
    try:
        task.instruction(step)
        tests = {file.path for file in task.tests(step)}
        task.workdir_files(step)
        task.solution(step)
    except DataError as error:
        yield _relative(error, task.folder)
        return
    has_own = verifier_folder(task, step) is not None
    if TEST_SCRIPT not in tests and not has_own:
        windows = " (test.bat is for Windows)" if "test.bat" in tests else ""
        yield f"{place}tests/{TEST_SCRIPT} is missing{windows}"
    if step.name is not None and (step.folder / "trajectory.json").exists():
        yield f"{place}trajectory.json: starting from an earlier conversation is not offered"


def _relative(error: DataError, folder: Path) -> str:
    return str(error).replace(f"{folder}/", "") or INSTRUCTION
