"""Sampling of an external agent's model calls: which settings are the run's, and which errors are the agent's."""

from typing import Any

from rollouthub.errors import ContextLimitError, ModelError
from rollouthub.generation import Sampling
from rollouthub.messages import ReplyStream

_REFUSED = (400, 413, 422)
"""HTTP statuses by which a model server says that the request is wrong."""


def pinned(ours: Sampling, asked_for: Sampling) -> Sampling:
    """The run's sampling, completed by the agent's `max_tokens` (if lower), `stop` and `extra` where the run leaves
    them open.
    """
    update: dict[str, Any] = {}
    if asked_for.max_tokens is not None and (ours.max_tokens is None or asked_for.max_tokens < ours.max_tokens):
        update["max_tokens"] = asked_for.max_tokens
    if ours.stop is None and asked_for.stop:
        update["stop"] = asked_for.stop
    if more := {key: value for key, value in asked_for.extra.items() if key not in ours.extra}:
        update["extra"] = {**more, **ours.extra}
    return ours.model_copy(update=update) if update else ours


def is_of_the_agents_making(error: BaseException, stream: ReplyStream | None) -> bool:
    """Whether an external agent's model call failed because of what the agent sent or did not read, not because of
    the model.
    """
    if not isinstance(error, ModelError) or isinstance(error, ContextLimitError) or error.retryable:
        return False
    return error.status in _REFUSED or (stream is not None and stream.has_begun)
