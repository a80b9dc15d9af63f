"""The cards of a conversation, as plain data: what was said, thought, called, judged, and what became of it."""

from dataclasses import dataclass
from typing import Literal

from rollouthub.statistics.amounts import number
from rollouthub.views.cards.blocks import Block, CodeBlock, PlainBlock, ProseBlock

CallStatus = Literal["ok", "error", "not run"]


Speaker = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class SpeechCard:
    """A message: the prompt, what the agent said, or what was said to it."""

    role: Speaker
    who: str
    """The author in words."""
    blocks: tuple[Block, ...]
    is_prompt: bool = False
    """Whether it came before the first answer of its conversation."""
    kind: Literal["speech"] = "speech"


@dataclass(frozen=True, slots=True)
class ThinkingCard:
    """The model's reasoning before an answer."""

    text: ProseBlock
    characters: int
    """Number of characters of all of it."""
    kind: Literal["thinking"] = "thinking"


@dataclass(frozen=True, slots=True)
class ToolCard:
    """A tool call with its arguments and its result."""

    name: str
    arguments: tuple[Block, ...]
    raw: PlainBlock
    """The arguments as JSON."""
    result: tuple[Block, ...] = ()
    status: CallStatus = "ok"
    seconds: float | None = None
    size: int | None = None
    """Bytes of the result; None if it was not run, or if that is unknown."""
    kind: Literal["tool"] = "tool"


@dataclass(frozen=True, slots=True)
class PersonCard:
    """A message of a person to the agent while it played."""

    text: PlainBlock
    seat: str
    at: float
    """Seconds from the rollout's start to the first model call with the message."""
    kind: Literal["person"] = "person"


@dataclass(frozen=True, slots=True)
class JudgeCard:
    """A judge's words, or a model call of the environment with what was asked and answered."""

    who: str
    words: ProseBlock
    asked: tuple[SpeechCard, ...] = ()
    """The messages of the model call; empty if only the words are on record."""
    model: str = ""
    error: str = ""
    """Why the call failed; empty if it did not."""
    seconds: float | None = None
    cost: float | None = None
    """US dollars."""
    kind: Literal["judge"] = "judge"


@dataclass(frozen=True, slots=True)
class NoteCard:
    """What the display says itself, such as that something is left out."""

    text: str
    kind: Literal["note"] = "note"


Card = SpeechCard | ThinkingCard | ToolCard | PersonCard | JudgeCard | NoteCard


@dataclass(frozen=True, slots=True)
class TurnCards:
    """One turn: what was added to the conversation, the answer, and the calls that it led to."""

    index: int
    """The turn's index, which counts from 0."""
    number: str
    """The turn in words, which count from 1."""
    seat: str
    """Who made the turn; empty if there is one seat only."""
    facts: tuple[str, ...]
    """Tokens, duration, reward and the like, in words."""
    errors: int
    """Number of calls that gave an error."""
    gist: str
    """The turn in a few words, for an outline."""
    cards: tuple[Card, ...]


@dataclass(frozen=True, slots=True)
class ComponentFigures:
    """One component of a reward."""

    name: str
    value: float
    weight: float


@dataclass(frozen=True, slots=True)
class FaultWords:
    """A fault: what broke, when, and what it said."""

    where: str
    message: str
    left: int = 0
    """Number of characters of the message that are left out."""


@dataclass(frozen=True, slots=True)
class VerdictCard:
    """How the rollout ended, what it was worth, and why."""

    mark: str
    """A symbol one cell wide for the verdict."""
    word: str
    style: str
    """The colour of the verdict, as `outcome_styles` names it."""
    outcome: str
    stop: str
    reward: float | None
    """None if it is unscored, which is not 0."""
    passed: bool | None
    suspect: str
    """Why the reward may be wrong; empty if nothing speaks against it."""
    answer: CodeBlock | PlainBlock | None
    feedback: ProseBlock | None
    components: tuple[ComponentFigures, ...]
    metrics: tuple[tuple[str, float], ...]
    seats: tuple[tuple[str, float], ...]
    """Seats with rewards of their own."""
    judges: tuple[JudgeCard, ...]
    faults: tuple[FaultWords, ...]
    trainable: bool
    why_not: str
    """Why it is not trainable; empty if it is."""
    gaps: tuple[str, ...]
    """What could not be recorded."""
    kind: Literal["verdict"] = "verdict"

    @property
    def ended(self) -> str:
        """Why the agent's turn was over, in words."""
        return "the agent finished" if self.stop == "finished" else f"stopped: {self.stop}"

    @property
    def worth(self) -> str:
        """The reward in words."""
        return "no reward: unscored, which is not 0" if self.reward is None else f"reward {number(self.reward)}"
