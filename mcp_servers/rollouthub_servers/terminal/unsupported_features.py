"""Features of the Harbor format that are refused by name because they are not supported."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from rollouthub.errors import DataError
from rollouthub_servers.terminal.allow_list import AllowList
from rollouthub_servers.terminal.config import TerminalConfig
from rollouthub_servers.terminal.containers import (
    agent_compose,
    build_folder,
    compose_in,
    is_in_place,
    verifier_folder,
    verifier_world,
)
from rollouthub_servers.terminal.harbor import HarborTask, Step
from rollouthub_servers.terminal.harbor.compose import MAIN
from rollouthub_servers.terminal.harbor.compose_values import Unfilled, filled
from rollouthub_servers.terminal.harbor.settings import ContainerSettings
from rollouthub_servers.terminal.harbor.task import INSTRUCTION, TEST_SCRIPT
from rollouthub_servers.terminal.harbor.templates import MissingVariable, filled_in
from rollouthub_servers.terminal.network_policy import Access, NetworkRefused, resolve_network


def refusals(task: HarborTask, config: TerminalConfig, caller: Mapping[str, str]) -> list[str]:
    """Reasons why a task cannot be run, each with file and key; empty if it can."""
    found = [f"task.toml: {why}" for why in _of_settings(task, config)]
    found += [f"task.toml: {why}" for why in _of_servers(task, config, caller)]
    found += [f"task.toml: {why}" for why in _of_variables(task, caller)]
    found += list(_of_files(task, config))
    return list(dict.fromkeys(found))


def _of_settings(task: HarborTask, config: TerminalConfig) -> Iterator[str]:
    settings = task.settings
    yield from _of_world(settings.environment, "environment", config)
    services = {MAIN, *agent_compose(task, config).services}
    agent_networks: set[Access] = set()
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
                yield from (f"{where}{why}" for why in _of_world(verifier.environment, "verifier.environment", config))
            for hook in verifier.collect:
                if hook.service not in services:
                    yield f"{where}[[verifier.collect]] service = {hook.service!r}: no such service"
        for entry in task.artifacts(step):
            if entry.service is not None and entry.service not in services:
                yield f"{where}artifacts: service = {entry.service!r}: no such service"
            elif entry.service not in (None, MAIN) and not entry.source.startswith("/"):
                yield f"{where}artifacts: source = {entry.source!r}: a path in a side-car begins with a slash"
    if config.profile == "hardened" and any(is_in_place(task, step, config) for step in task.steps):
        yield "[verifier] environment_mode = 'shared': root must put the tests there; add --set verifier=fresh"
    if len(agent_networks) > 1:
        yield "[[steps]] agent.network_mode: steps share a container, whose network does not change"


def _of_world(world: ContainerSettings, section: str, config: TerminalConfig) -> Iterator[str]:
    if world.os.lower() != "linux":
        yield f"[{section}] os = {world.os!r}: containers are Linux only"
    if (world.gpus or 0) > config.gpus:
        yield f"[{section}] gpus = {world.gpus}: where the engine has so many, allow them with --set gpus={world.gpus}"
    if world.gpu_types:
        yield f"[{section}] gpu_types = {list(world.gpu_types)}: which GPU a container gets is not known beforehand"
    try:
        AllowList(world.allowed_hosts or (), config.private_hosts)
    except ValueError as error:
        yield f"[{section}] allowed_hosts: {error}"
    if world.tpu is not None:
        yield f"[{section}] tpu: TPUs are not offered"
    if world.mcp_servers and section != "environment":
        yield f"[[{section}.mcp_servers]]: there is no agent beside the tests"
    if world.skills_dir is not None:
        yield f"[{section}] skills_dir: handing skills to an agent is not offered"


def _of_servers(task: HarborTask, config: TerminalConfig, caller: Mapping[str, str]) -> Iterator[str]:
    reached = {"localhost", "127.0.0.1", *agent_compose(task, config).names}
    names: set[str] = set()
    for server in task.settings.environment.mcp_servers:
        where = f"[[environment.mcp_servers]] {server.name!r}"
        if server.name in names:
            yield f"{where}: two servers have this name"
        names.add(server.name)
        if server.transport != "stdio" and server.address[0] not in reached:
            yield f"{where} url = {server.url!r}: only http:// to a service of the task is connected to"
        try:
            filled(server.headers, caller)
        except Unfilled as error:
            yield f"{where} headers: {error}"


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
        yield from compose_in(task, place, config).problems
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
