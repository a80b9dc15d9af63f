"""What a sealed episode hands to its verifier."""

from rollouthub.frozen import Frozen
from rollouthub.messages import Message


class Artifact(Frozen):
    """A file collected when the episode was sealed; its bytes live once in the run's `media/`."""

    name: str
    digest: str
    bytes: int


class Submission(Frozen):
    """What the agent left: its answer if it submitted one, and what it said."""

    answer: str | None = None
    """The text given to the `submit` tool."""
    transcript: tuple[Message, ...] = ()
    """The conversation of the (first) seat, where the hub saw it."""
    artifacts: tuple[Artifact, ...] = ()
    stop: str | None = None

    @property
    def final(self) -> str:
        """The submitted answer, or else the last thing the agent said."""
        if self.answer is not None:
            return self.answer
        for message in reversed(self.transcript):
            if message.role == "assistant":
                return message.text
        return ""
