"""What breaks under an environment's code, in words and as it is recorded."""

from typing import Literal

from rollouthub.errors import EpisodeError, ModelError, SandboxError, SandboxOverrun, VerifierError, describe
from rollouthub.rollout import Fault, Phase


def world_fault(error: Exception, phase: Phase) -> Fault:
    """An exception of an environment's hook or tool as a fault, by the boundary that broke."""
    return Fault(
        boundary=_boundary(error),
        phase=phase,
        type=type(error).__name__,
        message=describe(error),
        retryable=error.retryable if isinstance(error, EpisodeError) else True,
        status=error.status if isinstance(error, ModelError) else None,
    )


def _boundary(error: Exception) -> Literal["agent", "sandbox", "model", "verifier", "environment"]:
    """What broke under the environment's code, where it says so."""
    if isinstance(error, SandboxOverrun):
        return "agent"
    if isinstance(error, SandboxError):
        return "sandbox"
    if isinstance(error, VerifierError):  # where a part is graded while the agent still acts
        return "verifier"
    return "model" if isinstance(error, ModelError) else "environment"
