"""The containers of a task: the agent's, and the fresh one its tests run in."""

from collections.abc import Mapping
from pathlib import Path

from rollouthub.sandbox import MIB, Build, Profile, Resources, SandboxSpec
from rollouthub_servers.terminal.allow_list import proxy_variables
from rollouthub_servers.terminal.config import TerminalConfig
from rollouthub_servers.terminal.harbor import HarborTask, Step
from rollouthub_servers.terminal.harbor.compose import COMPOSE_FILE, Compose
from rollouthub_servers.terminal.harbor.settings import ContainerSettings
from rollouthub_servers.terminal.harbor.templates import filled_in
from rollouthub_servers.terminal.network_policy import Access, resolve_network
from rollouthub_servers.terminal.side_cars import LEAST_MEMORY, from_files
from rollouthub_servers.terminal.surroundings import Surroundings

ROOT = ("root", "0")


def build_folder(task: HarborTask) -> Path | None:
    """The folder with the Dockerfile of the task's image; None if there is none."""
    folder = task.folder / "environment"
    return folder if (folder / "Dockerfile").is_file() else None


def agent_user(task: HarborTask, step: Step) -> str | None:
    """The user that the agent is in a step; None for the image's own user."""
    return step.section.agent.user or task.settings.agent.user


def verifier_user(task: HarborTask, step: Step) -> str | None:
    """The user that runs the tests; None for the image's own user."""
    return step.section.verifier.user or task.settings.verifier.user


def is_separate(task: HarborTask, step: Step) -> bool | None:
    """Whether the task asks for a separate verifier container; None if it does not say."""
    for verifier in (step.section.verifier, task.settings.verifier):
        if verifier.environment_mode is not None:
            return verifier.environment_mode == "separate"
        if verifier.environment is not None:
            return True
    return None


def is_in_place(task: HarborTask, step: Step, config: TerminalConfig) -> bool:
    """Whether the tests run in the agent's own container: the task asks for it, or the configuration does and may."""
    if config.verifier == "fresh" or verifier_folder(task, step) is not None:
        return False
    asked = is_separate(task, step)
    if asked is None and agent_compose(task, config).services:
        return True  # what the agent did in a side-car does not cross
    return asked is False or (asked is None and config.verifier == "shared")


def agent_compose(task: HarborTask, config: TerminalConfig) -> Compose:
    """The services beside the agent's container."""
    return compose_in(task, "environment", config)


def verifier_compose(task: HarborTask, step: Step, config: TerminalConfig) -> Compose:
    """The services beside the tests' own container: those of its own image's folder, else the agent's anew."""
    has_own = verifier_folder(task, step) is not None
    return compose_in(task, "tests" if has_own else "environment", config)


def compose_in(task: HarborTask, place: str, config: TerminalConfig) -> Compose:
    """The services of a compose file that the user does not have ignored."""
    is_ignored = f"{place}/{COMPOSE_FILE}" in config.ignore
    return Compose(task.folder / place) if is_ignored else task.compose(place, config.caller())


def verifier_world(task: HarborTask, step: Step) -> ContainerSettings:
    """The `[environment]` section for the tests: the verifier's own, else the agent's."""
    if is_separate(task, step):
        return step.section.verifier.environment or task.settings.verifier.environment or task.settings.environment
    return task.settings.environment


def verifier_folder(task: HarborTask, step: Step) -> Path | None:
    """The tests' folder if the tests have their own image, which then contains them; else None."""
    if not is_separate(task, step):
        return None
    own = verifier_world(task, step) is not task.settings.environment
    for folder in dict.fromkeys((step.folder / "tests", task.folder / "tests")):
        if (folder / "Dockerfile").is_file() or (own and verifier_world(task, step).docker_image is not None):
            return folder
    return None


def agent_access(task: HarborTask, config: TerminalConfig) -> Access:
    """The network access of the agent's container."""
    first = task.steps[0].section.agent
    phase = first if first.network_mode is not None else task.settings.agent
    return resolve_network(task.settings.environment, phase, config.network, "agent")


def verifier_access(task: HarborTask, step: Step, config: TerminalConfig) -> Access:
    """The network access of the tests' own container."""
    section = step.section.verifier
    phase = section if section.network_mode is not None else task.settings.verifier
    return resolve_network(verifier_world(task, step), phase, config.network_of_tests, "verifier")


def agent_surroundings(task: HarborTask, config: TerminalConfig) -> Surroundings:
    """What the agent's container has around it."""
    return Surroundings(agent_compose(task, config), agent_access(task, config))


def verifier_surroundings(task: HarborTask, step: Step, config: TerminalConfig) -> Surroundings:
    """What the tests' own container has around it."""
    return Surroundings(verifier_compose(task, step, config), verifier_access(task, step, config))


def agent_spec(task: HarborTask, config: TerminalConfig, caller: Mapping[str, str]) -> SandboxSpec:
    """The container the agent works in."""
    settings = task.settings
    world = settings.environment
    users = {agent_user(task, step) for step in task.steps}
    user = users.pop() if len(users) == 1 else None
    profile: Profile = "root-compat" if user is None or user.partition(":")[0] in ROOT else "hardened"
    if any(is_in_place(task, step, config) for step in task.steps):
        profile = "root-compat"  # root puts the tests there
    if config.profile != "auto":
        profile = config.profile
    around = agent_surroundings(task, config)
    main = around.compose.main
    return SandboxSpec(
        image=_image(task, config),
        profile=profile,
        network=around.access.network,
        resources=_resources(world, config),
        user=user,
        workdir=world.workdir or main.working_dir,
        environment=_environment(world, around, caller),
        scratch=(),
        has_writable_root=True,
        loopback_names=around.compose.names,
    )


def verifier_spec(task: HarborTask, step: Step, config: TerminalConfig, caller: Mapping[str, str]) -> SandboxSpec:
    """The fresh container for the tests of a step. It runs as root, so that only root can write to the tests."""
    world = verifier_world(task, step)
    around = verifier_surroundings(task, step, config)
    folder = verifier_folder(task, step)
    image = _image(task, config)
    if folder is not None:
        own = None if world is task.settings.environment else world.docker_image  # the agent's image holds no tests
        image = own or Build(context=folder, timeout_seconds=world.build_timeout_sec)
    return SandboxSpec(
        image=image,
        profile="root-compat",
        network=around.access.network,
        resources=_resources(world, config),
        workdir=world.workdir or around.compose.main.working_dir,
        environment=_environment(world, around, caller),
        scratch=(),
        has_writable_root=True,
        loopback_names=around.compose.names,
    )


def _environment(world: ContainerSettings, around: Surroundings, caller: Mapping[str, str]) -> dict[str, str]:
    compose = around.compose
    own = {**from_files(compose.folder, compose.main), **compose.main.environment, **filled_in(world.env, caller)}
    return own if around.access.hosts is None else {**proxy_variables(compose.names), **own}


def _image(task: HarborTask, config: TerminalConfig) -> str | Build:
    world, folder = task.settings.environment, build_folder(task)
    if world.docker_image is not None and (folder is None or not config.force_build):
        return world.docker_image
    assert folder is not None, "a task without an image is refused before"
    return Build(context=folder, timeout_seconds=world.build_timeout_sec)


def _resources(world: ContainerSettings, config: TerminalConfig) -> Resources:
    return Resources(
        cpus=world.cpus or config.cpus,
        memory_bytes=max((world.memory_mb or config.memory_mb) * MIB, LEAST_MEMORY),
        pids=config.pids,
        disk_bytes=(world.storage_mb or config.storage_mb) * MIB,
        gpus=world.gpus or 0,
    )
