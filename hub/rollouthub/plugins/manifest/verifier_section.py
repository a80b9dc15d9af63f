"""`[verifier]`: the program, service or judge that scores the episodes of a declared environment."""

from pydantic import JsonValue, model_validator

from rollouthub.plugins.manifest.value_forms import Seconds, Url, Variables, Words, exactly_one, only_with
from rollouthub.values import Frozen


class VerifierSection(Frozen, defer_build=True):
    """`[verifier]`: the program, service or judge that scores a finished episode; exactly one of `command`, `url` and
    `judge`.
    """

    command: Words | None = None
    """Command that reads one JSON object on stdin and prints one JSON score on stdout; it starts in the folder of
    env.toml. It may hold `{folder}` and `{python}`.
    """
    url: Url | None = None
    """Address that accepts `POST {"entries": [OBJECT]}`, with the same object as `command`, and answers
    `{"verdicts": [{"score": …}]}`.
    """
    judge: str | None = None
    """Name of an installed judge: `rubric`, `tournament`, `credit`, `reward_model`, `process_reward_model`, or
    `namespace/name`.
    """
    settings: dict[str, JsonValue] = {}
    """With `judge`: the judge's settings."""
    token_variable: str | None = None
    """With `url`: name of the environment variable that holds the bearer token."""
    env: Variables = {}
    """With `command`: environment variables of the verifier; from the hub's own environment it gets only PATH and
    LANG.
    """
    seconds: Seconds = 240.0
    """Maximum time in seconds for a verdict; a later one counts as a verifier fault, never as a score of 0."""
    transcripts: bool = False
    """Whether the verifier needs only the task and the submission, so that it can score stored completions without
    an episode. A judge never needs more.
    """

    @model_validator(mode="after")
    def _holds(self) -> "VerifierSection":
        exactly_one(self, ("command", "url", "judge"))
        only_with(self, "command", ("env",))
        only_with(self, "judge", ("settings",))
        only_with(self, "url", ("token_variable",))
        return self
