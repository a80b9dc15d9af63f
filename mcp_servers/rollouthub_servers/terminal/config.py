"""`TerminalConfig`: the tasks, and what the user allows them."""

import os
from typing import Literal

from pydantic import Field

from rollouthub import SandboxedConfig
from rollouthub.sandbox import Network


class ShellConfig(SandboxedConfig):
    """Limits of a tool call."""

    command_seconds: float = Field(default=60.0, ge=1, le=86_400)
    """Seconds that a `bash` call may take if it does not set a timeout."""
    most_command_seconds: float = Field(default=110.0, ge=1, le=86_400)
    """Most seconds of a `bash` call's timeout; the hub's deadline for tool calls follows it unless you set that."""
    output_bytes: int = Field(default=16_000, ge=200, le=1_000_000)
    """Most bytes of a tool's output, half from its beginning and half from its end."""


class TerminalConfig(ShellConfig):
    """The tasks, and what the user allows them."""

    data: str | None = None
    """Folder of one Harbor task, or of several. Required."""
    network: Network | None = None
    """`bridge` gives tasks the network that they declare, `none` runs all tasks without one. By default only tasks
    that declare `no-network` run, and others are refused by name.
    """
    verifier_network: Network | None = None
    """As `network`, but for the tests alone, which may download what they run with; by default as `network`."""
    private_hosts: tuple[str, ...] = ()
    """Addresses, or networks of addresses, that are not public and that a task may reach all the same if its own
    allow-list names them.
    """
    gpus: int = Field(default=0, ge=0)
    """GPUs that a task may ask for; one that asks for more is refused by name."""
    passes: tuple[str, ...] = ()
    """Names of your environment variables that tasks may read. A task that asks for another one is refused unless it
    has a default for it: any task could name one of your keys.
    """
    ignore: tuple[str, ...] = ()
    """Parts of tasks that are ignored although they have an effect, or an unknown meaning: keys of `task.toml` such
    as `environment.gpus` (in every step: `steps.agent.KEY`), and `environment/docker-compose.yaml`.
    """
    profile: Literal["auto", "hardened", "root-compat"] = "auto"
    """Sandbox profile; `auto` is `hardened` for a task whose agent is not root, else `root-compat`."""
    force_build: bool = False
    """Build a task's Dockerfile even if the task names an image."""
    cpus: float = Field(default=1.0, gt=0)
    """CPUs of tasks that do not set them."""
    memory_mb: int = Field(default=2048, ge=64)
    """Memory in MiB of tasks that do not set it."""
    storage_mb: int = Field(default=10_240, ge=64)
    """Disk space in MiB of tasks that do not set it."""
    pids: int = Field(default=512, ge=16)
    """Most processes and threads in a container at a time."""
    verifier: Literal["auto", "shared", "fresh"] = "auto"
    """Where the tests run: `auto` is the agent's live container for tasks with `environment_mode = "shared"`, else a
    fresh one; `shared` is the live one also for tasks that do not set the mode; `fresh` is a fresh one for all.
    """
    crossing: Literal["auto", "artifacts", "snapshot"] = "auto"
    """Which of the agent's work the verifier gets: the declared `artifacts`, or a `snapshot` of the whole file
    system. `auto` is artifacts if a task declares some (and does not ask for a shared verifier), else the
    snapshot.
    """
    artifact_mb: int = Field(default=512, ge=1)
    """Most MiB of all artifacts of a task."""
    keeps_start_files: bool = False
    """Copy `.pth` files with code to the verifier, which `pip install -e` may write."""
    keeps_system: bool = False
    """Grade only on the system as the agent left it, for tasks that ask to change it. A score on a changed system is
    then marked as suspect.
    """
    reward_key: str | None = None
    """Which of several rewards is the score; by default `reward`, or the mean of all if there is none of that name."""
    pass_reward: float = 1.0
    """Least reward with which a task is passed."""

    @property
    def network_of_tests(self) -> Network | None:
        """The network set for the tests: `verifier_network`, else `network`; None if neither is set."""
        return self.network if self.verifier_network is None else self.verifier_network

    def caller(self) -> dict[str, str]:
        """The user's environment variables that tasks may read."""
        return {name: os.environ[name] for name in self.passes if name in os.environ}
