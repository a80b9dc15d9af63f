"""The settings of an external agent, as `--agent-set` gives them."""

import shlex
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from rollouthub.sandbox import MIB
from rollouthub_agents.external.templates import check_words
from rollouthub_agents.external.variables import check_names

SandboxKind = Literal["docker", "process", "none"]


def _words(given: object) -> object:
    """Split a command line into words; quotes and backslashes work as in a shell, nothing else of a shell does."""
    return shlex.split(given) if isinstance(given, str) else given


def _one_or_several(given: object) -> object:
    return (given,) if isinstance(given, str | Path) else given


Words = Annotated[tuple[str, ...], BeforeValidator(_words)]
Several = Annotated[tuple[str, ...], BeforeValidator(_one_or_several)]


class ExternalConfig(BaseModel):
    """Which program plays, where it runs, and what files and variables it gets."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    command: Words = ()
    """The program and its arguments, or one line that is split as in a shell. `{agent_url}`, `{llm_url}`,
    `{api_key}`, `{model}`, `{prompt}`, `{prompt_file}` and `{home}` are replaced by this episode's values;
    `{{word}}` gives `{word}` literally.
    """
    profile: str | None = None
    """A predefined command instead: `codex`, `claude-code`, `opencode`, `openai-agents`, `pydantic-ai`, `langchain`,
    `mini-swe-agent`.
    """
    program: str | None = None
    """Path of the profile's program if it is not found by its name, for example `.venv/bin/python`."""
    image: str | None = None
    """The container image in which the program runs; implies `sandbox=docker`."""
    sandbox: SandboxKind | None = None
    """`docker`: a container. `process`: namespaces of this machine. Both can reach the two URLs and nothing else.
    `none`: this machine without isolation; all processes are killed at the end. By default `process`, or `docker`
    for an image.
    """
    files: Several = ()
    """Files and folders of this machine that are copied to the program's working folder."""
    shows: Several = ()
    """Folders of this machine that `sandbox=process` mounts read-only at their own paths, besides the program's own."""
    env: dict[str, str] = {}
    """Further environment variables; they are recorded."""
    pass_env: Several = ()
    """Names of variables that are copied from the hub's own environment; their values are not recorded."""
    timeout_seconds: float | None = Field(default=None, gt=0)
    """Most seconds that the program may run; by default only the run's limits and deadlines end it."""
    grace_seconds: float = Field(default=10.0, ge=0)
    """Seconds that the program may go on after the episode is over (submitted, or at a limit)."""
    stdout_bytes: int = Field(default=64_000, ge=0)
    """Most bytes that are kept of each of stdout and stderr, half from the beginning and half from the end, for logs
    and errors.
    """
    memory_bytes: int | None = Field(default=None, ge=16 * MIB)
    """With `sandbox=docker`, bytes of the container's memory, 4 GiB by default. With `sandbox=process`, bytes of
    each process's address space, unlimited by default, as several runtimes reserve far more than they use.
    """
    cpus: float = Field(default=1.0, gt=0)
    """CPUs of a container."""

    @field_validator("command")
    @classmethod
    def _is_well_worded(cls, command: tuple[str, ...]) -> tuple[str, ...]:
        check_words(command)
        return command

    @model_validator(mode="after")
    def _holds_together(self) -> Self:
        if bool(self.command) == bool(self.profile):
            raise ValueError("give either a command (command='my-agent {agent_url}') or a profile (profile=codex)")
        if self.program is not None and self.profile is None:
            raise ValueError("`program` is the profile's; a command begins with its own")
        if self.image is not None and self.sandbox not in (None, "docker"):
            raise ValueError(f"an image needs sandbox=docker, not {self.sandbox}")
        if self.shows and self.kind != "process":
            raise ValueError(f"`shows` is for sandbox=process; with {self.kind}, " + _INSTEAD[self.kind])
        check_names([*self.env, *self.pass_env])
        return self

    @property
    def kind(self) -> SandboxKind:
        """The sandbox that is used, with the default resolved."""
        return self.sandbox or ("docker" if self.image else "process")


_INSTEAD = {"docker": "put what the program needs into its image", "none": "it sees everything anyway"}
