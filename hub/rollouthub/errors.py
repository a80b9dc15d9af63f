"""One error tree; the name says which boundary broke.

HubError
├── UsageError                what was asked for cannot be done; exit code 2
│   ├── ConfigError           a configuration key or value
│   ├── UnknownNameError      an environment, agent, split … nobody registered
│   ├── DataError             a row of a data file, with file and line
│   ├── CredentialError       a key that is missing, refused, or kept unsafely
│   └── RunDirectoryError     a run directory that cannot be used as asked
├── StoreError                the run store could not write or read (disk full …)
├── DoorError                 the socket of a running hub: cannot be opened, reached, or refuses
├── SupplyError               a supply of rollouts cannot go on, or weights could not be exchanged
├── EpisodeError              an episode's boundary broke; becomes the rollout's outcome
│   ├── TaskError             the environment's own code: setup, a tool, a user turn
│   │   ├── ServerGone        its server does not come back
│   │   └── WorkerLost        whoever played it is gone
│   ├── SandboxError          where its tools run
│   │   └── SandboxOverrun    what ran in it ended it; the agent's, once it acts
│   ├── ModelError            who generates
│   │   ├── ContextLimitError the conversation no longer fits: a stop
│   │   ├── OverlongAnswer    the model listed more than is read; of the policy, the agent's failure
│   │   └── BudgetError       the money set aside for the model is spent
│   ├── AgentError            who acts
│   └── VerifierError         who scores
├── ToolError                 a tool speaks to the model; never a fault
└── NotOffered                the environment does not offer what was asked (seed, state, reference)

`EpisodeStop` is not an error: a limit or the seal ends the agent's turn, and the episode is scored.
"""

import difflib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import cast


class HubError(Exception):
    """Everything the hub raises on purpose."""


class UsageError(HubError):
    """What the caller asked for cannot be done as asked."""


class ConfigError(UsageError):
    """A configuration key or value that does not hold."""


class UnknownNameError(UsageError):
    """A name that nothing is registered under."""

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


class DoorError(HubError):
    """The socket through which a running hub is watched and steered could not be opened or reached, or it refused."""


class SupplyError(HubError):
    """A trainer gets no more rollouts, or its weights could not be exchanged; what is committed stays."""


class EpisodeError(HubError):
    """A boundary of one episode broke; the engine turns it into the rollout's outcome.

    `retryable` says whether another attempt could fare better.
    """

    def __init__(self, message: str, *, retryable: bool = True) -> None:
        self.retryable = retryable
        super().__init__(message)


class TaskError(EpisodeError):
    """The environment's own code failed: its setup, one of its tools, or its user."""


class ServerGone(TaskError):
    """An environment's server is gone and does not come back; no later attempt fares better."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retryable=False)


class WorkerLost(TaskError):
    """Whoever played the episode is gone, with all that was in flight there."""


class SandboxError(EpisodeError):
    """The place where an environment's tools run failed."""


class SandboxOverrun(SandboxError):
    """What ran in a sandbox ended it: it went over the memory, the disk or the time it has.

    Once the agent acts this is the agent's: the episode is scored 0, and not played again.
    """

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        super().__init__(message, retryable=retryable)


class ModelError(EpisodeError):
    """A model backend failed after its retries.

    `status` is the last HTTP status, or None when no answer came; `retry_after_seconds` what its server asked for.
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
    """The conversation no longer fits the model; a stop, not a fault."""

    def __init__(self, message: str) -> None:
        super().__init__(message, status=400, retryable=False)


class OverlongAnswer(ModelError):
    """The model listed more than is read: its own doing, so no other try follows."""

    def __init__(self, message: str) -> None:
        super().__init__(message, status=200, retryable=False)


class BudgetError(ModelError):
    """The budget of a model does not allow another call; no later attempt fares better."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retryable=False)


class AgentError(EpisodeError):
    """The agent itself failed: its program crashed or broke its contract."""

    def __init__(self, message: str, *, retryable: bool = False) -> None:
        super().__init__(message, retryable=retryable)


class VerifierError(EpisodeError):
    """The verifier failed, or gave something that is no score."""


class ToolError(HubError):
    """Raised by a tool to speak to the model: the text reaches it as an error result."""


class NotOffered(HubError):
    """The environment does not offer what was asked: a seed, a snapshot, a reference solution."""


class EpisodeStop(Exception):
    """The agent's turn is over (a limit, or the episode was sealed); what is there is scored."""

    def __init__(self, stop: str) -> None:
        self.stop = stop
        super().__init__(stop)


def said(error: BaseException) -> str:
    """What an error says; the name of its class where it says nothing, as `TimeoutError` does."""
    return str(error) or type(error).__name__


def describe(error: BaseException) -> str:
    """An error in one line: its class and what it says."""
    text = str(error)
    if isinstance(error, ModuleNotFoundError) and (error.name or "").partition("_")[0].partition(".")[0] == "envhub":
        text += "; the hub's packages are called rollouthub now: write `from rollouthub import …`"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def first_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The one error to show of a group: a bug before a hub error, a hub error before a cancellation."""
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
