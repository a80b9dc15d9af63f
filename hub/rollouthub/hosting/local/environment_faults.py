"""Turns exceptions of an environment's code into typed errors and recorded faults."""

import logging
from collections.abc import Generator
from contextlib import contextmanager
from typing import Literal

from rollouthub.errors import EpisodeError, ModelError, SandboxError, SandboxOverrun, TaskError, VerifierError
from rollouthub.hosting.wall.inside import describe_behind
from rollouthub.rollout import Fault, Phase

logger = logging.getLogger(__name__)


@contextmanager
def verifier_faults(task_id: str) -> Generator[None]:
    """Turn exceptions of a verifier's code into verifier errors; sandbox errors stay sandbox errors.

    Raises:
        VerifierError: the code failed, or a model it asked.
        SandboxError: a sandbox broke under it.
    """
    try:
        yield
    except (VerifierError, SandboxError):
        raise
    except ModelError as error:
        raise VerifierError(f"a model the verifier asked failed: {error}", retryable=error.retryable) from error
    except Exception as error:
        logger.exception("the verifier of task %r failed", task_id)
        raise VerifierError(f"the verifier raised {describe_behind(error)}") from error


@contextmanager
def hook_faults(hook: str) -> Generator[None]:
    """Turn exceptions of a hook's code into task errors; an `EpisodeError` is passed on.

    Raises:
        TaskError: the code failed.
        EpisodeError: what the code used broke, such as a sandbox.
    """
    try:
        yield
    except EpisodeError:
        raise
    except Exception as error:
        raise TaskError(f"{hook} raised {describe_behind(error)}") from error


def world_fault(error: Exception, phase: Phase) -> Fault:
    """An exception of an environment's hook or tool as a fault, by the boundary that broke."""
    return Fault(
        boundary=_boundary(error),
        phase=phase,
        type=type(error).__name__,
        message=describe_behind(error),
        retryable=error.retryable if isinstance(error, EpisodeError) else True,
        status=error.status if isinstance(error, ModelError) else None,
    )


def _boundary(error: Exception) -> Literal["agent", "sandbox", "model", "verifier", "environment"]:
    """The boundary that an error names; the environment if it names none."""
    if isinstance(error, SandboxOverrun):
        return "agent"
    if isinstance(error, SandboxError):
        return "sandbox"
    if isinstance(error, VerifierError):  # where a part is graded while the agent still acts
        return "verifier"
    return "model" if isinstance(error, ModelError) else "environment"
