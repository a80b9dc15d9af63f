"""What `--agent-set` says of an external agent."""

import shlex
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from rollouthub.sandbox import MIB
from rollouthub_agents.external.templates import check_words
from rollouthub_agents.external.variables import check_names

SandboxKind = Literal["docker", "process", "none"]


def _words(given: object) -> object:
    """A command line as its words; quotes and backslashes as a shell reads them, and nothing else of a shell."""
    return shlex.split(given) if isinstance(given, str) else given


def _one_or_several(given: object) -> object:
    return (given,) if isinstance(given, str | Path) else given


Words = Annotated[tuple[str, ...], BeforeValidator(_words)]
Several = Annotated[tuple[str, ...], BeforeValidator(_one_or_several)]


class ExternalConfig(BaseModel):
    """Which program plays, where it runs and what it gets."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    command: Words = ()
    """The program and its arguments, or a line that is split as a shell would. `{agent_url}`, `{llm_url}`, `{api_key}`,
    `{model}`, `{prompt}`, `{prompt_file}` and `{home}` stand for this episode's; `{{word}}` for `{word}` itself."""
    profile: str | None = None
    """A ready command instead: `codex`, `claude-code`, `opencode`, `openai-agents`, `pydantic-ai`, `langchain`,
    `mini-swe-agent`."""
    program: str | None = None
    """The program of the profile, where it is not found by its name: `.venv/bin/python`."""
    image: str | None = None
    """The image whose container the program runs in; needs `sandbox=docker`, which it implies."""
    sandbox: SandboxKind | None = None
    """`docker`: a container. `process`: namespaces of this machine. Both reach the two URLs and nothing else.
    `none`: this machine as you are, killed whole at the end, with no wall at all. Without: `process`, or `docker` for
    an image."""
    files: Several = ()
    """Files and folders of this machine, copied to the folder the program starts in."""
    shows: Several = ()
    """Folders of this machine that `sandbox=process` shows read-only, at their own path, besides the program's own."""
    env: dict[str, str] = {}
    """Further variables, by name; they are recorded."""
    pass_env: Several = ()
    """Names of variables that are passed on from the hub's own environment; their values are not recorded."""
    timeout_seconds: float | None = Field(default=None, gt=0)
    """Most wall time of the program; without, only the run's own limits and deadlines end it."""
    grace_seconds: float = Field(default=10.0, ge=0)
    """How long it may go on when the episode is over: submitted, or at a limit."""
    stdout_bytes: int = Field(default=64_000, ge=0)
    """How much of each of its outputs is kept, half of it from the beginning; for the log, and for what went wrong."""
    memory_bytes: int | None = Field(default=None, ge=16 * MIB)
    """Memory in a container, 4 GiB by default; address space of each process with `sandbox=process`, not bounded by
    default, as several runtimes reserve far more than they use."""
    cpus: float = Field(default=1.0, gt=0)
    """Processors of a container."""

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
        """Where the program runs."""
        return self.sandbox or ("docker" if self.image else "process")


_INSTEAD = {"docker": "put what the program needs into its image", "none": "it sees everything anyway"}
