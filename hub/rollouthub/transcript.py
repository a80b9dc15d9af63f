"""What a stored rollout handed to its verifier."""

from rollouthub.messages import Message
from rollouthub.rollout import Rollout
from rollouthub.submission import Submission


def conversation_of(rollout: Rollout, seat: str | None = None) -> tuple[Message, ...]:
    """A seat's conversation up to its last response; by default the seat that spoke first."""
    if not rollout.turns:
        return ()
    name = rollout.turns[0].agent if seat is None else seat
    turns = {turn.index: turn for turn in rollout.turns}
    turn = next((turn for turn in reversed(rollout.turns) if turn.agent == name), None)
    conversation: list[Message] = []
    while turn is not None:
        conversation[:0] = [*turn.messages, turn.response]
        turn = None if turn.parent_turn is None else turns[turn.parent_turn]
    return tuple(conversation)


def submission_of(rollout: Rollout, seat: str | None = None) -> Submission:
    """The submission a verifier is given for a stored rollout."""
    return Submission(
        answer=rollout.answer,
        transcript=conversation_of(rollout, seat),
        artifacts=rollout.artifacts,
        stop=rollout.stop.value,
    )
