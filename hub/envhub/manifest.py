"""`env.toml`: an environment declared, not programmed; here what may stand in it, and where it is wrong."""

import difflib
import json
import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError, model_validator

from envhub.errors import ConfigError
from envhub.frozen import Frozen
from envhub.limits import Limits

FILE_NAME = "env.toml"
PLACEHOLDERS = ("workdir", "folder", "python", "seed", "task.id")
"""What may stand in braces in a server's command, `args` and `env`; and `task.KEY`, of a task's metadata."""

_PLACEHOLDER = re.compile(r"(?<!\$)\{([A-Za-z_][\w.]*)\}")
_Words = Annotated[tuple[str, ...], Field(min_length=1)]
_Variables = dict[Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$")], str]
_Url = Annotated[str, Field(pattern=r"^https?://\S+$")]
_Seconds = Annotated[float, Field(gt=0, le=3600)]


class ServerSection(Frozen):
    """`[server]`: the MCP server; exactly one of `command`, `image` and `url`."""

    command: _Words | None = None
    """Starts a server that speaks MCP on stdin and stdout; one process an episode, in its scratch folder."""
    image: str | None = Field(default=None, min_length=1)
    """A container image with such a server; one container an episode, without network."""
    args: tuple[str, ...] = ()
    """With `image`: arguments to its entry point."""
    url: _Url | None = None
    """A server that runs already and speaks Streamable HTTP; all episodes share it, each with its own session."""
    token_variable: str | None = None
    """With `url`: the environment variable that holds the bearer token."""
    env: _Variables = {}
    """Variables of the server; of the hub's own it gets PATH and LANG alone."""
    files: str | None = None
    """A folder beside env.toml whose content every episode's scratch folder starts with."""
    tools: _Words | None = None
    """The tools to offer; None offers all the server has."""
    hidden_tools: tuple[str, ...] = ()
    """Tools not to offer; they cannot be called either."""
    concurrency: int | None = Field(default=None, ge=1)
    """Most episodes at the server, or most servers, at one time; None leaves it to the run's own concurrency."""
    start_seconds: _Seconds = 30.0
    """How long the server may take to start and list its tools."""
    call_seconds: _Seconds = 60.0
    """How long a call may take; then it is cancelled, and the model is told."""
    stop_seconds: float = Field(default=1.0, ge=0, le=20)
    """How long the server may take to leave once its stdin is closed; then it is killed."""
    result_bytes: int = Field(default=1_000_000, ge=1_000)
    """The longest result a model is given; a longer one is cut, and says so."""

    @property
    def texts(self) -> tuple[str, ...]:
        """Everything that may hold placeholders."""
        return (*(self.command or ()), *self.args, *self.env.values())

    @model_validator(mode="after")
    def _holds(self) -> "ServerSection":
        _exactly_one(self, ("command", "image", "url"))
        _only_with(self, "image", ("args",))
        _only_with(self, "url", ("token_variable",))
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


class VerifierSection(Frozen):
    """`[verifier]`: what turns a sealed episode into a score; exactly one of `command` and `url`."""

    command: _Words | None = None
    """Reads one JSON object on stdin and prints one JSON score on stdout; started beside env.toml. It may hold
    `{folder}` and `{python}`."""
    url: _Url | None = None
    """Takes `POST {"entries": [the same object]}` and answers `{"verdicts": [{"score": …}]}`."""
    token_variable: str | None = None
    """With `url`: the environment variable that holds the bearer token."""
    env: _Variables = {}
    """With `command`: its variables; of the hub's own it gets PATH and LANG alone."""
    seconds: _Seconds = 240.0
    """How long it may take; later is a fault of the verifier's, never a 0."""
    transcripts: bool = False
    """Whether it needs nothing but task and submission: stored completions can then be scored without an episode."""

    @model_validator(mode="after")
    def _holds(self) -> "VerifierSection":
        _exactly_one(self, ("command", "url"))
        _only_with(self, "command", ("env",))
        _only_with(self, "url", ("token_variable",))
        return self


class Manifest(Frozen):
    """All of an `env.toml`."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]*/[a-z0-9][a-z0-9._-]*$", max_length=100)
    """`namespace/name`."""
    version: str = Field(default="0.1.0", pattern=r"^\d+\.\d+\.\d+([.+-][\w.+-]+)?$", max_length=60)
    """Raise it when tasks, tools or scores change."""
    description: str = Field(default="", max_length=1000)
    """One line for people."""
    submit: bool = True
    """Whether a task asks for an answer: the agent then also gets the tool `submit(answer)`."""
    server: ServerSection
    tasks: dict[Annotated[str, Field(pattern=r"^[\w.-]+$")], str] = Field(min_length=1)
    """Split → a JSONL, JSON or Parquet file of rows beside env.toml; the first split is the default."""
    verifier: VerifierSection
    limits: Limits = Limits()
    """What the environment suggests; the caller's own win."""


def load_manifest(file: Path) -> Manifest:
    """Read and check an `env.toml`.

    Raises:
        ConfigError: every problem, each with file, line and key.
    """
    try:
        text = file.read_bytes().decode()
        values = tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file} is not UTF-8: byte {error.start}") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file} is not TOML: {error}") from error
    try:
        return Manifest.model_validate_json(_as_json(values), strict=True)
    except ValidationError as error:
        lines = _lines(text)
        problems: list[Any] = error.errors(include_url=False)
        placed = sorted((_line(lines, problem), _said(problem)) for problem in problems)
        raise ConfigError("\n".join(f"{file}:{line}: {said}" for line, said in placed)) from None


def _as_json(values: dict[str, Any]) -> str:
    """TOML's values as JSON, whose arrays become tuples; dates become text."""
    return json.dumps(values, default=str)


def _place(problem: Any) -> list[str]:
    return [str(step) for step in problem["loc"] if step != "[key]"]


def _line(lines: dict[str, int], problem: Any) -> int:
    """The line of a problem's key, or of the section around it."""
    return next((lines[found] for found in _outwards(_place(problem)) if found in lines), 1)


def _said(problem: Any) -> str:
    place = _place(problem)
    key = ".".join(place)
    if problem["type"] == "extra_forbidden":
        known = _fields_at(place[:-1])
        close = difflib.get_close_matches(place[-1], known, n=1, cutoff=0.5)
        meant = f"; did you mean {close[0]!r}?" if close else f"; there are: {', '.join(known)}"
        return f"there is no key {key!r}{meant}"
    if problem["type"] == "missing":
        is_section = "." not in key and key in ("server", "tasks", "verifier")
        return f"the section [{key}] is missing" if is_section else f"the key {key!r} is missing"
    said = str(problem["msg"]).removeprefix("Value error, ")
    shown = "" if isinstance(problem["input"], dict) else f" = {problem['input']!r:.100}"
    return f"{key}{shown}: {said}"


def _fields_at(place: Sequence[str]) -> list[str]:
    """The keys of a section, as the manifest's models know them."""
    sections: dict[str, type[Frozen]] = {"server": ServerSection, "verifier": VerifierSection, "limits": Limits}
    return list((sections[place[0]] if place and place[0] in sections else Manifest).model_fields)


def _outwards(place: Sequence[str]) -> Iterator[str]:
    """A key, then the sections around it."""
    for length in range(len(place), 0, -1):
        yield ".".join(place[:length])


def _lines(text: str) -> dict[str, int]:
    """Key → line, for the plain forms people write; tomllib tells no places."""
    found: dict[str, int] = {}
    section = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if header := re.match(r"\s*\[\s*([\w.\"-]+?)\s*\]", line):
            section = header[1].replace('"', "") + "."
            found.setdefault(section[:-1], number)
        elif pair := re.match(r"\s*([\w.\"'-]+)\s*=", line):
            found.setdefault(section + re.sub("[\"']", "", pair[1]), number)
    return found


def _exactly_one(section: Frozen, keys: tuple[str, ...]) -> None:
    given = [key for key in keys if getattr(section, key) is not None]
    if len(given) != 1:
        named = ", ".join(f"`{key}`" for key in keys)
        raise ValueError(f"give exactly one of {named}; {' and '.join(given) or 'none'} is there")


def _only_with(section: Frozen, owner: str, keys: tuple[str, ...]) -> None:
    for key in keys:
        if getattr(section, key) and getattr(section, owner) is None:
            raise ValueError(f"`{key}` goes with `{owner}` alone")
