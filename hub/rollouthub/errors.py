"""One error tree; the name says which boundary broke.

HubError ├── UsageError                a request that cannot be done as asked; exit code 2 │   ├── ConfigError
a configuration key or value │   ├── UnknownNameError      a name of an environment, agent, split … that is not
registered │   ├── DataError             a row of a data file, with file and line │   ├── CredentialError       a key
that is missing, refused, or kept unsafely │   └── RunDirectoryError     a run directory that cannot be used as asked
├── StoreError                the run store could not write or read (disk full …) ├── LiveControlError          the
socket of a running hub cannot be opened or reached, or refuses ├── SupplyError               a trainer gets no more
rollouts, or weights could not be exchanged ├── EpisodeError              an episode's boundary broke; becomes the
rollout's outcome │   ├── TaskError             the environment's own code: setup, a tool, a user turn │   │   ├──
ServerGone        its server died and cannot be restarted │   │   └── WorkerLost        the worker process that played
it died │   ├── SandboxError          the sandbox of its tools │   │   └── SandboxOverrun    a program in it exceeded a
limit; the agent's doing, once it acts │   ├── ModelError            the model │   │   ├── ContextLimitError the
conversation no longer fits: a stop │   │   ├── OverlongAnswer    the model's answer has too many entries; an agent
failure │   │   └── BudgetError       the money set aside for the model is spent │   ├── AgentError            the agent
│   └── VerifierError         the verifier ├── ToolError                 an error that a tool shows the model; never a
fault └── NotOffered                the environment does not offer what was asked (seed, state, reference)

`EpisodeStop` is not an error: a limit is reached or the episode is sealed, and the episode is scored.
"""

import difflib
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from pydantic import ValidationError


_MOST_LISTED = 1000
"""Problems of a model beyond which they are only counted: each takes a kilobyte when it is listed."""


class HubError(Exception):
    """Base of all errors that the hub raises on purpose."""


class UsageError(HubError):
    """What the caller asked for cannot be done as asked."""


class ConfigError(UsageError):
    """A configuration key or value that is not valid."""


class UnknownNameError(UsageError):
    """A name under which nothing is registered."""

    def __init__(self, kind: str, name: str, known: Iterable[str], hint: str = "") -> None:
        names = sorted(known)
        close = [known for known in names if known.casefold() == name.casefold()]
        close = close or difflib.get_close_matches(name, names, n=3, cutoff=0.5)
        meant = f"; did you mean {' or '.join(repr(match) for match in close)}?" if close else "."
        shown = ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
        listing = f" Known: {shown}." if names and (not close or len(names) <= 12) else ""
        super().__init__(f"no {kind} is named {name!r}{meant}{listing}{' ' + hint if hint else ''}")


class DataError(UsageError):
    """A row of a data file that cannot become a task."""

    def __init__(self, problem: str, file: Path | str, line: int | None = None) -> None:
        self.file, self.line = str(file), line
        where = f"{file}:{line}" if line is not None else str(file)
        super().__init__(f"{where}: {problem}")


class CredentialError(UsageError):
    """A key that is missing, refused by its provider, or kept where it could leak."""


class RunDirectoryError(UsageError):
    """A run directory that cannot be used as asked: newer schema, read-only, locked, another run."""


class StoreError(HubError):
    """The run store could not be written or read; what is committed stays."""


class LiveControlError(HubError):
    """The socket for watching and controlling a running hub could not be opened or reached, or refused the request."""


class SupplyError(HubError):
    """A trainer can get no more rollouts, or weights could not be exchanged; committed rollouts stay."""


class EpisodeError(HubError):
    """A boundary of one episode broke; the engine turns it into the rollout's outcome.

    `retryable` says whether another attempt could succeed.
    """

    def __init__(self, message: str, *, retryable: bool = True) -> None:
        self.retryable = retryable
        super().__init__(message)


class TaskError(EpisodeError):
    """The environment's own code failed: its setup, one of its tools, or its simulated user."""


class ServerGone(TaskError):
    """An environment's server died and cannot be restarted; no later attempt can succeed."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retryable=False)


class WorkerLost(TaskError):
    """The worker process that played the episode died, with all its episodes in flight."""


class SandboxError(EpisodeError):
    """A sandbox failed."""


class SandboxOverrun(SandboxError):
    """A program in a sandbox ended the sandbox: it exceeded its memory, disk or time.

    Once the agent acts, this is the agent's doing: the episode is scored 0, and not played again.
    """

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        super().__init__(message, retryable=retryable)


class ModelError(EpisodeError):
    """A model backend failed after its retries.

    `status` is the last HTTP status, or None without a response; `retry_after_seconds` is what the server asked for.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retryable: bool = True,
        retry_after_seconds: float | None = None,
    ) -> None:
        self.status, self.retry_after_seconds = status, retry_after_seconds
        super().__init__(message, retryable=retryable)


class ContextLimitError(ModelError):
    """The conversation no longer fits the model's context; this ends the agent phase and is not a fault."""

    def __init__(self, message: str) -> None:
        super().__init__(message, status=400, retryable=False)


class OverlongAnswer(ModelError):
    """The model's answer has more entries than the hub reads; this is the model's doing, so it is not retried."""

    def __init__(self, message: str) -> None:
        super().__init__(message, status=200, retryable=False)


class BudgetError(ModelError):
    """The budget of a model does not allow another call; no later attempt can succeed."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retryable=False)


class AgentError(EpisodeError):
    """The agent itself failed: its program crashed or broke its contract."""

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        super().__init__(message, retryable=retryable)


class VerifierError(EpisodeError):
    """The verifier failed, or returned something that is not a score."""


class ToolError(HubError):
    """Raised by a tool to show the model an error: its text becomes an error result."""


class NotOffered(HubError):
    """The environment does not offer what was asked: a seed, a snapshot, a reference solution."""


class EpisodeStop(Exception):
    """The agent must stop (a limit, or the episode was sealed); the episode is scored as it is."""

    def __init__(self, stop: str) -> None:
        self.stop = stop
        super().__init__(stop)


def said(error: BaseException) -> str:
    """An error's message; its class name if the message is empty, as for `TimeoutError`."""
    return str(error) or type(error).__name__


def describe(error: BaseException) -> str:
    """An error in one line: its class and its message."""
    text = str(error)
    if isinstance(error, ModuleNotFoundError) and (error.name or "").partition("_")[0].partition(".")[0] == "envhub":
        text += "; the hub's packages are called rollouthub now: write `from rollouthub import …`"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def invalid_fields(error: "ValidationError", whole: str = "it", most: int = 1) -> str:
    """What of some data does not hold, by the first problems of its model: `key: message`, or `whole: message`; how
    many there are, where a stranger's data has so many that listing them takes long.
    """
    if error.error_count() > _MOST_LISTED:
        return f"{whole}: {error.error_count():,} fields are not valid"
    problems = error.errors(include_url=False, include_input=False, include_context=False)[:most]
    return "; ".join(f"{'.'.join(map(str, each['loc'])) or whole}: {each['msg']}" for each in problems)


@asynccontextmanager
async def raise_first_error() -> AsyncGenerator[None]:
    """Raise one error, the `first_error`, in place of the group that a task group in the block raises."""
    try:
        yield
    except BaseExceptionGroup as group:
        raise first_error(group) from group


def first_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The one error of a group to show: an error that is not the hub's before a hub error, and that before a
    cancellation.
    """
    return min(_leaves(group), key=_rank)


def _rank(error: BaseException) -> int:
    if isinstance(error, HubError):
        return 1
    return 0 if isinstance(error, Exception) else 2


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(cast(BaseExceptionGroup[BaseException], error))
        else:
            yield error
