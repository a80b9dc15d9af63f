"""Which boundary broke: turns errors into faults and outcomes."""

from collections.abc import Iterator, Sequence
from typing import Literal

from rollouthub.errors import (
    AgentError,
    EpisodeError,
    EpisodeStop,
    ModelError,
    SandboxError,
    SandboxOverrun,
    TaskError,
    VerifierError,
)
from rollouthub.rollout import Fault, Outcome, Phase

Boundary = Literal["agent", "model", "environment", "sandbox", "verifier", "hub"]

_BOUNDARIES: list[tuple[type[EpisodeError], Boundary]] = [
    (SandboxError, "sandbox"),
    (ModelError, "model"),
    (VerifierError, "verifier"),
    (TaskError, "environment"),
    (AgentError, "agent"),
]
OUTCOMES: dict[Boundary, Outcome] = {
    "agent": Outcome.AGENT_FAILED,
    "model": Outcome.MODEL_FAILED,
    "environment": Outcome.ENVIRONMENT_FAILED,
    "sandbox": Outcome.SANDBOX_FAILED,
    "verifier": Outcome.VERIFIER_FAILED,
    "hub": Outcome.CANCELLED,
}
"""Boundary → the outcome of an episode in which that boundary broke."""


def fault_of(error: EpisodeError, phase: Phase) -> Fault:
    """The fault to record for a boundary's error."""
    boundary: Boundary = "environment"
    for kind, name in _BOUNDARIES:
        if isinstance(error, kind):
            boundary = name
            break
    if isinstance(error, SandboxOverrun) and phase != "setup":
        boundary = "agent"
    status = error.status if isinstance(error, ModelError) else None
    return Fault(
        boundary=boundary,
        phase=phase,
        type=type(error).__name__,
        message=str(error),
        retryable=error.retryable,
        status=status,
    )


def is_overrun(error: EpisodeError, faults: Sequence[Fault]) -> bool:
    """Whether the agent phase ended because the agent destroyed its sandbox; the episode is then still scored."""
    return isinstance(error, SandboxOverrun) or (bool(faults) and all(fault.boundary == "agent" for fault in faults))


def decisive(error: BaseException) -> BaseException:
    """The error that explains the failure: of a group, the first boundary's error, else the first that is no
    `EpisodeStop`.
    """
    leaves = list(_leaves(error))
    boundary = (leaf for leaf in leaves if isinstance(leaf, EpisodeError))
    bug = (leaf for leaf in leaves if not isinstance(leaf, EpisodeStop))
    return next(boundary, None) or next(bug, leaves[0])


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
            yield from _leaves(inner)  # pyright: ignore[reportUnknownArgumentType]
    else:
        yield error
