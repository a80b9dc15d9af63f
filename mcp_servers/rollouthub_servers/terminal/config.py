"""`TerminalConfig`: where the tasks are, and what the caller allows them."""

import os
from typing import Literal

from pydantic import Field

from rollouthub import SandboxedConfig
from rollouthub.sandbox import Network


class ShellConfig(SandboxedConfig):
    """What one call of a tool may take."""

    command_seconds: float = Field(default=60.0, ge=1, le=86_400)
    """Seconds a `bash` call may take that does not say itself how many."""
    most_command_seconds: float = Field(default=110.0, ge=1, le=86_400)
    """Most seconds a `bash` call may ask for; the hub's deadline of a tool call follows it, unless you set that."""
    output_bytes: int = Field(default=16_000, ge=200, le=1_000_000)
    """Kept of what a call has to say, half from its beginning and half from its end."""


class TerminalConfig(ShellConfig):
    """Where the tasks are, and what the caller allows them."""

    data: str | None = None
    """A Harbor task's folder, or a folder that holds several. Required."""
    network: Network | None = None
    """`bridge` lets tasks have the network they declare, `none` runs them all without one. By default a task runs that
    declares `no-network`, and any other is refused by name."""
    verifier_network: Network | None = None
    """The same for the tests alone, which may need one to fetch what they run with; by default as `network` says."""
    passes: tuple[str, ...] = ()
    """Names of your own variables that tasks may have. A task that asks for another is refused, unless it says itself
    what to take instead: anybody's task could name a key of yours."""
    ignore: tuple[str, ...] = ()
    """What of a task is left out of account although it would steer something, or nobody knows what it does: keys of
    `task.toml` such as `environment.gpus` (of every step: `steps.agent.KEY`), and `environment/docker-compose.yaml`."""
    profile: Literal["auto", "hardened", "root-compat"] = "auto"
    """`auto` is `hardened` for a task whose agent is not root, else `root-compat`."""
    force_build: bool = False
    """Build a task's Dockerfile even where it names a ready image."""
    cpus: float = Field(default=1.0, gt=0)
    """CPUs of a task that does not say how many."""
    memory_mb: int = Field(default=2048, ge=64)
    """Memory of a task that does not say how much."""
    storage_mb: int = Field(default=10_240, ge=64)
    """Disk space of a task that does not say how much."""
    pids: int = Field(default=512, ge=16)
    """Processes and threads at one time."""
    verifier: Literal["auto", "shared", "fresh"] = "auto"
    """Where the tests run: `auto` is the agent's live container for a task with `environment_mode = "shared"`, and a
    fresh one for all others; `shared` is the live one also where a task does not say, `fresh` a fresh one for all."""
    crossing: Literal["auto", "artifacts", "snapshot"] = "auto"
    """What the verifier is handed of the agent's work: its declared `artifacts` or its whole file system. `auto` is
    artifacts where a task declares some (and does not ask for a shared verifier), else the file system."""
    artifact_mb: int = Field(default=512, ge=1)
    """Most that all artifacts of a task may hold together."""
    keeps_start_files: bool = False
    """Let `.pth` files with code, which `pip install -e` may write, cross to the verifier."""
    keeps_system: bool = False
    """Grade on the system as the agent left it, and on no other: for tasks that ask to change it. A score of a changed
    system is then suspect, and counts as the tests gave it."""
    reward_key: str | None = None
    """Which of several rewards is the score; None is `reward`, or the mean of all where there is none of that name."""
    pass_reward: float = 1.0
    """A task is solved from this reward on."""

    @property
    def network_of_tests(self) -> Network | None:
        """What the caller says of the tests' network; None where he says nothing."""
        return self.network if self.verifier_network is None else self.verifier_network

    def caller(self) -> dict[str, str]:
        """Those of the caller's variables that tasks may have."""
        return {name: os.environ[name] for name in self.passes if name in os.environ}
