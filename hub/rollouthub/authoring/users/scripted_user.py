"""`ScriptedUser`: a user without a model, who gives the same answers to the same messages."""

import re
from collections.abc import Sequence
from functools import cache

from pydantic import Field, JsonValue

from rollouthub.authoring.users.simulated_user import words_of
from rollouthub.messages import Message, user
from rollouthub.values import Frozen

MOST_HEARD = 20_000
"""Most characters of the agent's messages that patterns are searched in."""


class Cue(Frozen):
    """Lines that the user says when a pattern matches the agent's message; all matching cues are answered at once,
    in order.
    """

    when: str
    """A regular expression, searched in the agent's message, ignoring case."""
    says: tuple[str, ...] = Field(min_length=1)
    """The line for the first match, the second, and so on; the last line is repeated, unless the cue is `once`."""
    once: bool = False
    """Whether the cue is no longer used after its last line."""
    in_requests: bool = False
    """Whether the pattern is searched only in sentences that ask for something."""


class Stage(Frozen):
    """One request of the user."""

    says: str
    """The line with which the user makes the request; the first stage's opens the conversation."""
    cues: tuple[Cue, ...] = ()
    """Cues of this stage, used before those of the script."""


class UserScript(Frozen):
    """All lines of a scripted user."""

    stages: tuple[Stage, ...] = Field(min_length=1)
    closing: str
    """A regular expression: if the agent's message matches it, the user goes on to the next stage, or leaves after
    the last.
    """
    cues: tuple[Cue, ...] = ()
    """Cues that are used in every stage."""
    fallback: str = "I'm not sure what you mean. What do you need from me?"
    """The user's answer to a message that matches no cue."""
    patience: int = Field(default=4, ge=1)
    """Number of unmatched messages in a row at which the user leaves."""
    most_replies: int = Field(default=40, ge=1)
    """Most replies of the user, who then leaves."""


class ScriptedUser:
    """Plays a script: a state machine driven by what the agent says."""

    def __init__(self, script: UserScript) -> None:
        self._script = script
        self._stage = self._strayed = self._replies = 0
        self._said: dict[str, int] = {}
        self.is_done = False

    async def reply(self, messages: Sequence[Message]) -> Sequence[Message] | None:
        """The user's answer to the agent's new messages; None when the user leaves."""
        said = None if self.is_done else self._answer(words_of(messages)[:MOST_HEARD])
        if said is None:
            self.is_done = True
            return None
        return [user(said)]

    def _answer(self, words: str) -> str | None:
        script = self._script
        self._replies += 1
        if self._replies > script.most_replies:
            return None
        if _pattern(script.closing).search(words):
            self._stage += 1
            self._strayed = 0
            return script.stages[self._stage].says if self._stage < len(script.stages) else None
        lines = self._lines(words)
        if lines:
            self._strayed = 0
            return " ".join(dict.fromkeys(lines))
        self._strayed += 1
        return script.fallback if self._strayed < script.patience else None

    def _lines(self, words: str) -> list[str]:
        requests = _requests(words)
        lines: list[str] = []
        # Cues are counted by their place: a stage's begin anew with the stage, the script's go on.
        cues = [(f"{self._stage}.{place}", cue) for place, cue in enumerate(self._script.stages[self._stage].cues)]
        cues += [(f"*.{place}", cue) for place, cue in enumerate(self._script.cues)]
        for key, cue in cues:
            spoken = self._said.get(key, 0)
            if cue.once and spoken >= len(cue.says):
                continue
            if _pattern(cue.when).search(requests if cue.in_requests else words):
                lines.append(cue.says[min(spoken, len(cue.says) - 1)])
                self._said[key] = spoken + 1
        return lines

    def snapshot(self) -> JsonValue:
        """The user's position in the script, as JSON."""
        said: dict[str, JsonValue] = dict(self._said)
        return {
            "stage": self._stage,
            "strayed": self._strayed,
            "replies": self._replies,
            "said": said,
            "is_done": self.is_done,
        }

    def restore(self, state: JsonValue) -> None:
        """Continue from a snapshot."""
        place = _ScriptPosition.model_validate(state)
        self._stage, self._strayed, self._replies = place.stage, place.strayed, place.replies
        self._said, self.is_done = dict(place.said), place.is_done


class _ScriptPosition(Frozen):
    stage: int
    strayed: int
    replies: int
    said: dict[str, int]
    is_done: bool


_SENTENCE = re.compile(r"[^.!?\n]+(?:[.!?](?=\S)[^.!?\n]+)*[.!?]*")
_REQUEST = re.compile(
    r"\?|\b(?:please|need|provide|tell me|let me know|give me|share|send me|confirm|reply|enter|specify)\b",
    re.IGNORECASE,
)


def _requests(words: str) -> str:
    """The sentences that ask for something."""
    return "\n".join(sentence for sentence in _SENTENCE.findall(words) if _REQUEST.search(sentence))


@cache
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE)
