"""The tokens that a sample's pictures take of the planned model, and how many of them its calls did not report."""

from dataclasses import dataclass, field

from rollouthub.messages import Media, media_of
from rollouthub.models.media_tokens import MEDIA_TOKENS, known_media_tokens
from rollouthub.rollout import Rollout
from rollouthub.store import RunReader

_MOCK = "mock/"


@dataclass
class SamplePictures:
    """The pictures and sounds in a sample's prompts; one that several calls send counts once for each call."""

    model: str
    """The model that is planned."""
    sent: int = 0
    tokens: int = 0
    """Their tokens by the planned model's rule."""
    guessed: int = 0
    """How many have no known rule, and are counted as `MEDIA_TOKENS` each."""
    unreported: dict[str, int] = field(default_factory=dict[str, int])
    """Group → prompt tokens that its calls did not report, because a mock model reads words alone, a server counts
    nothing, or the sample's model has another rule. Negative if the planned model's pictures take fewer tokens.
    """

    @property
    def is_adjusted(self) -> bool:
        """Whether the calls reported other prompt tokens than the planned model would."""
        return any(self.unreported.values())


def read_pictures(reader: RunReader, planned: str) -> SamplePictures:
    """Count the pictures of all attempts of a run; `planned` is the name of the model that is planned."""
    found = SamplePictures(planned)
    if planned.startswith(_MOCK) or not reader.has_media():
        return found
    known: dict[tuple[str, str], int | None] = {}

    def tokens(model: str, part: Media) -> int | None:
        key = model, part.digest
        if key not in known:
            known[key] = known_media_tokens(model, part, reader.media(part.digest))
        return known[key]

    for rollout in reader.rollouts(effective=False):
        shown = _shown(rollout)
        for turn, parts in zip(rollout.turns, shown, strict=True):
            played = turn.model or rollout.model or ""
            counts = [tokens(planned, part) for part in parts]
            theirs = sum(MEDIA_TOKENS if count is None else count for count in counts)
            found.sent += len(parts)
            found.tokens += theirs
            found.guessed += counts.count(None)
            is_silent = played.startswith(_MOCK) or not turn.usage.prompt_tokens
            if is_silent or played != planned:
                reported = 0 if is_silent else sum(tokens(played, part) or MEDIA_TOKENS for part in parts)
                found.unreported[rollout.group_id] = found.unreported.get(rollout.group_id, 0) + theirs - reported
    return found


def _shown(rollout: Rollout) -> list[list[Media]]:
    """The pictures in the whole conversation of each turn."""
    shown: list[list[Media]] = []
    for turn in rollout.turns:
        before = [] if turn.parent_turn is None else shown[turn.parent_turn]
        shown.append([*before, *media_of(turn.messages)])
    return shown
