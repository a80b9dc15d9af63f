"""`Manifest`: the content of an `env.toml`."""

from typing import Annotated

from pydantic import AfterValidator, Field, JsonValue, model_validator

from rollouthub.limits import Limits
from rollouthub.plugins.env_toml import CONTRACT
from rollouthub.plugins.manifest.accepted_section import Accepted
from rollouthub.plugins.manifest.declared import AdoptedFrom, Determinism, RewardSection, SandboxSection
from rollouthub.plugins.manifest.python_section import PythonSection
from rollouthub.plugins.manifest.server_section import ServerSection
from rollouthub.plugins.manifest.tasks_section import Tasks
from rollouthub.plugins.manifest.value_forms import Author, Licence, Tag, Url, Variable, at
from rollouthub.plugins.manifest.verifier_section import VerifierSection
from rollouthub.protocols import DEFAULT_AGENT
from rollouthub.values import Frozen


def _spoken(contract: int) -> int:
    if contract != CONTRACT:
        raise ValueError(f"this hub speaks contract {CONTRACT}; take a hub, or a version of the environment, that fits")
    return contract


class Manifest(Frozen, defer_build=True):
    """The content of an `env.toml`: one of the sections `[server]` and `[python]`, and a description of the
    environment.
    """

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]*/[a-z0-9][a-z0-9._-]*$", max_length=100)
    """The environment's name, as `namespace/name`."""
    version: str = Field(default="0.1.0", pattern=r"^\d+\.\d+\.\d+([.+-][\w.+-]+)?$", max_length=60)
    """The environment's version. Raise it when tasks, tools or scores change."""
    description: str = Field(default="", max_length=1000)
    """One line that describes the environment to people."""
    license: Licence | None = None
    """The environment's licence, as an SPDX expression."""
    authors: tuple[Author, ...] = ()
    """The authors, each as `Name` or `Name <address>`."""
    contract: Annotated[int, AfterValidator(_spoken)] = CONTRACT
    """The version of the contract between hub and environment that the environment was written for."""
    homepage: Url | None = None
    """Address of a page about the environment."""
    repository: Url | None = None
    """Address of the environment's source code."""
    tags: Annotated[tuple[Tag, ...], Field(max_length=20)] = ()
    """Search terms for the environment."""
    determinism: Determinism | None = None
    """Whether the same actions lead to the same world and score: always (`full`), under the same seed (`seeded`), or
    not certainly (`none`: a network, a judge or a clock is involved). None declares nothing.
    """
    secrets: tuple[Variable, ...] = ()
    """Names, never values, of the environment variables that the environment needs."""
    network: bool = False
    """Whether the environment's own code needs a network: without it, its server has none behind the wall around
    installed environments. A `url` in [server], [verifier] or [tasks], and an `hf` data set, say so themselves.
    """
    submit: bool = True
    """With `[server]`: whether a task expects an answer; if so, the agent also gets the tool `submit(answer)`."""
    default_agent: str = Field(default=DEFAULT_AGENT, pattern=r"^[a-z0-9][a-z0-9._-]*(/[a-z0-9][a-z0-9._-]*)?$")
    """With `[server]`: the agent that plays when the caller gives a model but no agent. It may only ask the model and
    call tools. A class names its own.
    """
    server: ServerSection | None = None
    """An MCP server that needs no knowledge of the hub."""
    python: PythonSection | None = None
    """A Python class written for the hub."""
    tasks: Tasks = {}
    """Split → source of its rows; the first split is the default. With `[python]`, the class reads them."""
    settings: dict[str, JsonValue] = {}
    """Defaults of the environment's settings, which `--set` overrides; `{folder}` in a text is env.toml's folder."""
    accepted: Accepted = {}
    """Split → the list of those tasks that are offered; without it all of them are."""
    verifier: VerifierSection | None = None
    """With `[server]`: the program or service that scores an episode; a class scores its own episodes."""
    limits: Limits = Limits()
    """With `[server]`: the limits that the environment suggests; the caller's limits override them. A class suggests
    its own.
    """
    reward: RewardSection | None = None
    """The range of the reward."""
    sandbox: SandboxSection | None = None
    """The sandboxes that the environment's tools run in."""
    adopted_from: AdoptedFrom | None = None
    """The work of others that the environment was made from."""

    @model_validator(mode="after")
    def _holds(self) -> "Manifest":
        if self.server is not None and self.python is not None:
            raise at("python", "give one of the sections [server] and [python], not both")
        if self.python is not None:
            for key, is_given in (
                ("verifier", self.verifier is not None),
                ("submit", not self.submit),
                ("default_agent", self.default_agent != DEFAULT_AGENT),
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
        """Names of the environment variables that must be set: the secrets, and the tokens of server and verifier."""
        sections = (self.server, self.verifier)
        tokens = (section.token_variable for section in sections if section is not None)
        return tuple(dict.fromkeys((*self.secrets, *(token for token in tokens if token is not None))))
