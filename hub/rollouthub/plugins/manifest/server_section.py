"""`[server]`: the MCP server of a declared environment."""

import re
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from rollouthub.frozen import Frozen
from rollouthub.plugins.manifest.value_forms import Seconds, Url, Variables, Words, exactly_one, only_with

PLACEHOLDERS = ("workdir", "folder", "python", "seed", "task.id")
"""What may stand in braces in a server's command, `args` and `env`; and `task.KEY`, of a task's metadata."""
_PLACEHOLDER = re.compile(r"(?<!\$)\{([A-Za-z_][\w.]*)\}")


def _from_an_index(text: str) -> str:
    # Its grammar is loaded only by who declares one.
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        requirement = Requirement(text)
    except InvalidRequirement as error:
        raise ValueError(f"{text!r} is no requirement: {error}; write for example mcp>=1.12,<2") from error
    if requirement.url is not None:
        raise ValueError(f"{text!r} leads to an address, whose bytes may change; name a version: {requirement.name}>=1")
    return text


Requirements = tuple[Annotated[str, Field(max_length=300), AfterValidator(_from_an_index)], ...]


class ServerSection(Frozen, defer_build=True):
    """`[server]`: the MCP server; exactly one of `command`, `image` and `url`."""

    command: Words | None = None
    """Starts a server that speaks MCP on stdin and stdout; one process an episode, in its scratch folder."""
    image: str | None = Field(default=None, min_length=1)
    """A container image with such a server; one container an episode, without network."""
    args: tuple[str, ...] = ()
    """With `image`: arguments to its entry point."""
    url: Url | None = None
    """A server that runs already and speaks Streamable HTTP; all episodes share it, each with its own session."""
    token_variable: str | None = None
    """With `url`: the environment variable that holds the bearer token."""
    env: Variables = {}
    """Variables of the server; of the hub's own it gets PATH and LANG alone."""
    requirements: Requirements = ()
    """Python distributions that server and verifier need, such as `mcp>=1.12,<2`; an installed environment has them
    in a virtual environment of its own, which `{python}` and PATH lead to."""
    files: str | None = None
    """A folder beside env.toml whose content every episode's scratch folder starts with."""
    tools: Words | None = None
    """The tools to offer; None offers all the server has."""
    hidden_tools: tuple[str, ...] = ()
    """Tools not to offer; they cannot be called either."""
    concurrency: int | None = Field(default=None, ge=1)
    """Most episodes at the server, or most servers, at one time; None leaves it to the run's own concurrency."""
    start_seconds: Seconds = 30.0
    """How long the server may take to start and list its tools."""
    call_seconds: Seconds = 60.0
    """How long a call may take; then it is cancelled, and the model is told."""
    stop_seconds: Annotated[float, Field(ge=0, le=20)] = 1.0
    """How long the server may take to leave once its stdin is closed; then it is killed."""
    result_bytes: Annotated[int, Field(ge=1_000)] = 1_000_000
    """The longest result a model is given; a longer one is cut, and says so."""

    @property
    def texts(self) -> tuple[str, ...]:
        """Everything that may hold placeholders."""
        return (*(self.command or ()), *self.args, *self.env.values())

    @model_validator(mode="after")
    def _holds(self) -> "ServerSection":
        exactly_one(self, ("command", "image", "url"))
        only_with(self, "image", ("args",))
        only_with(self, "url", ("token_variable",))
        if self.url is not None and (self.env or self.files is not None):
            raise ValueError("`env` and `files` are for a server that is started here, not for a `url`")
        # A text with spaces may be a script, whose braces are its own.
        for text in (text for text in self.texts if not re.search(r"\s", text)):
            for name in _PLACEHOLDER.findall(text):
                if name not in PLACEHOLDERS and not re.fullmatch(r"task\.[A-Za-z_]\w*", name):
                    known = ", ".join(f"{{{known}}}" for known in PLACEHOLDERS)
                    raise ValueError(
                        f"there is no placeholder {{{name}}} (in {text!r}); there are: {known}, {{task.KEY}}"
                    )
        return self
