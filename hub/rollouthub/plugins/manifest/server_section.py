"""`[server]`: the MCP server of a declared environment."""

import re
from pathlib import PurePosixPath
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from rollouthub.plugins.manifest.value_forms import Seconds, Url, Variables, Words, exactly_one, only_with
from rollouthub.values import Frozen

PLACEHOLDERS = ("workdir", "folder", "python", "seed", "task.id")
"""Placeholders allowed in braces in a server's command, `args` and `env`, besides `task.KEY`, a value of the task's
metadata.
"""
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


def _in_scratch(text: str) -> str:
    path = PurePosixPath(text)
    if path.is_absolute() or not path.parts or ".." in path.parts or "**" in path.parts or "\0" in text:
        raise ValueError(
            f"{text!r} names nothing in the scratch folder; write a path below it, such as out/*.csv, or a whole folder"
        )
    return str(path)


ScratchPath = Annotated[str, Field(max_length=300), AfterValidator(_in_scratch)]


class ServerSection(Frozen, defer_build=True):
    """`[server]`: the MCP server; exactly one of `command`, `image` and `url`."""

    command: Words | None = None
    """Command that starts a server that speaks MCP on stdin and stdout; each episode starts one process in its
    scratch folder.
    """
    image: str | None = Field(default=None, min_length=1)
    """Container image with a server that speaks MCP on stdin and stdout; each episode starts one container, without
    network.
    """
    args: tuple[str, ...] = ()
    """With `image`: arguments to the image's entry point."""
    url: Url | None = None
    """Address of a running server that speaks Streamable HTTP; all episodes share it, each with its own session."""
    token_variable: str | None = None
    """With `url`: name of the environment variable that holds the bearer token."""
    env: Variables = {}
    """Environment variables of the server; from the hub's own environment it gets only PATH and LANG."""
    requirements: Requirements = ()
    """Python distributions that server and verifier need, such as `mcp>=1.12,<2`. An installed environment has them
    in a virtual environment of its own; `{python}` and PATH point to that.
    """
    files: str | None = None
    """A folder beside env.toml; its content is copied into every episode's scratch folder at the start."""
    artifacts: tuple[ScratchPath, ...] = ()
    """Files and folders of the scratch folder that are kept with the rollout, 32 MiB together: `library.db`,
    `out/*.csv`; `*`, `?` and `[ab]` match within a name, and a folder brings all below it.
    """
    tools: Words | None = None
    """Names of the server's tools to offer to the agent; None offers all of them."""
    hidden_tools: tuple[str, ...] = ()
    """Names of tools to hide from the agent; a hidden tool cannot be called."""
    concurrency: int | None = Field(default=None, ge=1)
    """Maximum number of concurrent episodes on the server, or of concurrent servers; None applies the run's own
    concurrency.
    """
    start_seconds: Seconds = 30.0
    """Maximum time in seconds for the server to start and list its tools."""
    call_seconds: Seconds = 60.0
    """Maximum time in seconds for one tool call; a longer call is cancelled, and the model gets an error."""
    stop_seconds: Annotated[float, Field(ge=0, le=20)] = 1.0
    """Maximum time in seconds for the server to exit after its stdin is closed; then it is killed."""
    result_bytes: Annotated[int, Field(ge=1_000)] = 1_000_000
    """Maximum length in bytes of a result that the model gets; a longer result is cut and marked as cut."""

    @property
    def texts(self) -> tuple[str, ...]:
        """All texts of the section that may hold placeholders."""
        return (*(self.command or ()), *self.args, *self.env.values())

    @model_validator(mode="after")
    def _holds(self) -> "ServerSection":
        exactly_one(self, ("command", "image", "url"))
        only_with(self, "image", ("args",))
        only_with(self, "url", ("token_variable",))
        if self.url is not None and (self.env or self.files is not None or self.artifacts):
            raise ValueError("`env`, `files` and `artifacts` are for a server that is started here, not for a `url`")
        # A text with spaces may be a script, whose braces are its own.
        for text in (text for text in self.texts if not re.search(r"\s", text)):
            for name in _PLACEHOLDER.findall(text):
                if name not in PLACEHOLDERS and not re.fullmatch(r"task\.[A-Za-z_]\w*", name):
                    known = ", ".join(f"{{{known}}}" for known in PLACEHOLDERS)
                    raise ValueError(
                        f"there is no placeholder {{{name}}} (in {text!r}); there are: {known}, {{task.KEY}}"
                    )
        return self
