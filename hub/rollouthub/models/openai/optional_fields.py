"""What the openai lane asks for if the endpoint has it, and leaves out for good where it was answered only without."""

import logging
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal

from rollouthub.models.retry import TryFailed

logger = logging.getLogger(__name__)

OptionalField = Literal["answer_schema", "encrypted_reasoning"]
"""What a request asks for if the endpoint has it."""
_MOST_CHARACTERS = 5000
"""Most characters of a refusal that are looked through."""
_REFUSALS: dict[OptionalField, re.Pattern[str]] = {
    "answer_schema": re.compile(r"response_format|text\.format|json_?schema|structured.output", re.IGNORECASE),
    "encrypted_reasoning": re.compile(r"encrypted|\binclude\b", re.IGNORECASE),
}
_LEFT_OUT: dict[OptionalField, str] = {
    "answer_schema": "takes no JSON schema for its answers; it is asked in words alone",
    "encrypted_reasoning": "gives no encrypted reasoning; what it thought is not sent back in later turns",
}
_MOST_SHOWN = 200


class OptionalFields:
    """The optional fields that one endpoint does not take."""

    def __init__(self, name: str, redact: Callable[[str], str], refused: Collection[OptionalField] = ()) -> None:
        """`name` is the model's, for a warning; `refused` are left out from the beginning."""
        self._name, self._redact = name, redact
        self.refused: frozenset[OptionalField] = frozenset(refused)

    def of_call(self) -> "CallFields":
        """The optional fields of one call."""
        return CallFields(self)

    def leave_out(self, field: OptionalField, refusal: TryFailed) -> None:
        """Leave a field out of all later calls."""
        if field not in self.refused:
            said = self._redact(str(refusal))[:_MOST_SHOWN]
            logger.warning("%s %s (%s)", self._name, _LEFT_OUT[field], said)
            self.refused = self.refused.union((field,))


class CallFields:
    """What one call leaves out. A refusal may name a field and be about another thing, or about everything: the
    endpoint is known not to take a field only once it answered a request that was refused with it.
    """

    def __init__(self, known: OptionalFields) -> None:
        self._known = known
        self._last: tuple[OptionalField, TryFailed] | None = None
        self.left_out = known.refused

    def leave_out(self, failed: TryFailed, body: Mapping[str, Any]) -> bool:
        """Whether the endpoint refused an optional field of the request, which the next try leaves out."""
        field = refused_option(failed, body)
        if field is None:
            return False
        self._last = field, failed
        self.left_out = self.left_out.union((field,))
        return True

    def answered(self) -> None:
        """Note that the endpoint answered: of what was left out, the last field is what it did not take."""
        if self._last is not None:
            self._known.leave_out(*self._last)


def refused_option(failed: TryFailed, body: Mapping[str, Any]) -> OptionalField | None:
    """What an endpoint refused of a request that it may take without; None if it refused something else."""
    if failed.status not in (400, 422) or failed.is_context_limit:
        return None
    asked: dict[OptionalField, bool] = {
        "answer_schema": "response_format" in body or "format" in (body.get("text") or {}),
        "encrypted_reasoning": "include" in body,
    }
    for option, words in _REFUSALS.items():
        if asked[option] and words.search(str(failed)[:_MOST_CHARACTERS]):
            return option
    return None
