"""`[verifier]`: what scores the episodes of a declared environment."""

from pydantic import model_validator

from rollouthub.frozen import Frozen
from rollouthub.plugins.manifest.value_forms import Seconds, Url, Variables, Words, exactly_one, only_with


class VerifierSection(Frozen, defer_build=True):
    """`[verifier]`: what turns a sealed episode into a score; exactly one of `command` and `url`."""

    command: Words | None = None
    """Reads one JSON object on stdin and prints one JSON score on stdout; started beside env.toml. It may hold
    `{folder}` and `{python}`."""
    url: Url | None = None
    """Takes `POST {"entries": [the same object]}` and answers `{"verdicts": [{"score": …}]}`."""
    token_variable: str | None = None
    """With `url`: the environment variable that holds the bearer token."""
    env: Variables = {}
    """With `command`: its variables; of the hub's own it gets PATH and LANG alone."""
    seconds: Seconds = 240.0
    """How long it may take; later is a fault of the verifier's, never a 0."""
    transcripts: bool = False
    """Whether it needs nothing but task and submission: stored completions can then be scored without an episode."""

    @model_validator(mode="after")
    def _holds(self) -> "VerifierSection":
        exactly_one(self, ("command", "url"))
        only_with(self, "command", ("env",))
        only_with(self, "url", ("token_variable",))
        return self
