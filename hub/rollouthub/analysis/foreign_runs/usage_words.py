"""Token counts under the names that model servers and tracing tools give them."""

from typing import Any

from rollouthub.analysis.foreign_runs.foreign_messages import as_count, as_number, as_object
from rollouthub.rollout import Usage

_PROMPT = ("input_tokens", "prompt_tokens", "input", "promptTokens")
_OUTPUT = ("output_tokens", "completion_tokens", "output", "completionTokens")
_CACHED = ("cached_tokens", "cache_read_input_tokens", "input_cached_tokens", "input_cache_read")
_REASONING = ("reasoning_tokens", "output_reasoning_tokens", "output_reasoning")


def usage_of(given: Any) -> Usage:
    """The counts of an object by whichever of these names it has."""
    usage = as_object(given)
    inner = {**as_object(usage.get("prompt_tokens_details")), **as_object(usage.get("completion_tokens_details"))}

    def first(names: tuple[str, ...]) -> int:
        known = {**inner, **usage}
        return next((as_count(known[name]) for name in names if as_number(known.get(name)) is not None), 0)

    return Usage(
        prompt_tokens=first(_PROMPT),
        output_tokens=first(_OUTPUT),
        cached_tokens=first(_CACHED),
        reasoning_tokens=first(_REASONING),
    )
