"""The containers of a task: the agent's, and the fresh one its tests run in."""

from collections.abc import Mapping
from pathlib import Path

from rollouthub.sandbox import MIB, Build, Profile, Resources, SandboxSpec
from rollouthub_servers.terminal.config import TerminalConfig
from rollouthub_servers.terminal.harbor import HarborTask, Step
from rollouthub_servers.terminal.harbor.settings import ContainerSettings
from rollouthub_servers.terminal.harbor.templates import filled_in
from rollouthub_servers.terminal.network_policy import resolve_network

ROOT = ("root", "0")
LEAST_MEMORY = 16 * MIB


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
    return asked is False or (asked is None and config.verifier == "shared")


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
    first = task.steps[0].section.agent
    phase = first if first.network_mode is not None else settings.agent
    return SandboxSpec(
        image=_image(task, config),
        profile=profile,
        network=resolve_network(world, phase, config.network, "agent"),
        resources=_resources(world, config),
        user=user,
        workdir=world.workdir,
        environment=filled_in(world.env, caller),
        scratch=(),
        has_writable_root=True,
    )


def verifier_spec(task: HarborTask, step: Step, config: TerminalConfig, caller: Mapping[str, str]) -> SandboxSpec:
    """The fresh container for the tests of a step. It runs as root, so that only root can write to the tests."""
    world = verifier_world(task, step)
    section = step.section.verifier
    phase = section if section.network_mode is not None else task.settings.verifier
    folder = verifier_folder(task, step)
    image = _image(task, config)
    if folder is not None:
        own = None if world is task.settings.environment else world.docker_image  # the agent's image holds no tests
        image = own or Build(context=folder, timeout_seconds=world.build_timeout_sec)
    return SandboxSpec(
        image=image,
        profile="root-compat",
        network=resolve_network(world, phase, config.network_of_tests, "verifier"),
        resources=_resources(world, config),
        workdir=world.workdir,
        environment=filled_in(world.env, caller),
        scratch=(),
        has_writable_root=True,
    )


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
    )
