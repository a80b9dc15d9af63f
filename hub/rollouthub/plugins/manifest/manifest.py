"""`Manifest`: all of an `env.toml`."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from rollouthub.frozen import Frozen
from rollouthub.limits import Limits
from rollouthub.plugins.manifest.declared import AdoptedFrom, Determinism, RewardSection, SandboxSection
from rollouthub.plugins.manifest.python_section import PythonSection
from rollouthub.plugins.manifest.server_section import ServerSection
from rollouthub.plugins.manifest.tasks_section import Tasks
from rollouthub.plugins.manifest.value_forms import Author, Licence, Tag, Url, Variable, at
from rollouthub.plugins.manifest.verifier_section import VerifierSection

CONTRACT = 1
"""The contract between hub and environment that this hub speaks."""


def _spoken(contract: int) -> int:
    if contract != CONTRACT:
        raise ValueError(f"this hub speaks contract {CONTRACT}; take a hub, or a version of the environment, that fits")
    return contract


class Manifest(Frozen, defer_build=True):
    """All of an `env.toml`: one of the sections `[server]` and `[python]`, and what there is to say about it."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]*/[a-z0-9][a-z0-9._-]*$", max_length=100)
    """`namespace/name`."""
    version: str = Field(default="0.1.0", pattern=r"^\d+\.\d+\.\d+([.+-][\w.+-]+)?$", max_length=60)
    """Raise it when tasks, tools or scores change."""
    description: str = Field(default="", max_length=1000)
    """One line for people."""
    license: Licence | None = None
    """An SPDX licence expression."""
    authors: tuple[Author, ...] = ()
    """Each as `Name` or `Name <address>`."""
    contract: Annotated[int, AfterValidator(_spoken)] = CONTRACT
    """The version of the contract between hub and environment that it was written for."""
    homepage: Url | None = None
    """Where people read about it."""
    repository: Url | None = None
    """Where its source is."""
    tags: Annotated[tuple[Tag, ...], Field(max_length=20)] = ()
    """Words to find it by."""
    determinism: Determinism | None = None
    """Whether the same actions meet the same world and score: always (`full`), under the same seed (`seeded`), or not
    for certain (`none`: a network, a judge, a clock). None says nothing about it."""
    secrets: tuple[Variable, ...] = ()
    """The names, never the values, of environment variables it needs."""
    submit: bool = True
    """With `[server]`: whether a task asks for an answer; the agent then also gets the tool `submit(answer)`."""
    default_agent: Literal["tool_loop", "react", "single_turn"] = "tool_loop"
    """With `[server]`: who acts where a model is given and no agent; a class names its own."""
    server: ServerSection | None = None
    """An MCP server that knows nothing of the hub."""
    python: PythonSection | None = None
    """A class that does."""
    tasks: Tasks = {}
    """Split → where its rows come from; the first split is the default. With `[python]`, the class reads them."""
    verifier: VerifierSection | None = None
    """With `[server]`: what scores an episode; a class scores its own."""
    limits: Limits = Limits()
    """With `[server]`: what the environment suggests; the caller's own win. A class suggests its own."""
    reward: RewardSection | None = None
    """What a reward may be."""
    sandbox: SandboxSection | None = None
    """Where its tools run."""
    adopted_from: AdoptedFrom | None = None
    """What it was made of."""

    @model_validator(mode="after")
    def _holds(self) -> "Manifest":
        if self.server is not None and self.python is not None:
            raise at("python", "give one of the sections [server] and [python], not both")
        if self.python is not None:
            for key, is_given in (
                ("verifier", self.verifier is not None),
                ("submit", not self.submit),
                ("default_agent", self.default_agent != "tool_loop"),
                ("limits", self.limits != Limits()),
            ):
                if is_given:
                    raise at(key, f"{key!r} goes with a [server]; with [python] the class says it")
            return self
        if self.server is None:
            raise at("server", "the section [server] is missing, or for an environment in Python the section [python]")
        if not self.tasks:
            raise at("tasks", "the section [tasks] is missing or empty")
        if self.verifier is None:
            raise at("verifier", "the section [verifier] is missing")
        return self

    @property
    def needed_variables(self) -> tuple[str, ...]:
        """Environment variables that must be set: its secrets, and the tokens of its server and verifier."""
        sections = (self.server, self.verifier)
        tokens = (section.token_variable for section in sections if section is not None)
        return tuple(dict.fromkeys((*self.secrets, *(token for token in tokens if token is not None))))
