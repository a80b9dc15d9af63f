"""`Conversation`: the messages between the seats of an environment, and the order in which seats speak."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import anyio
from pydantic import JsonValue, TypeAdapter

from rollouthub.authoring.users.simulated_user import words_of
from rollouthub.messages import Message, user

TurnOrder = Literal["alternating", "simultaneous", "free"]
"""`alternating`: one seat after the other; `simultaneous`: all at once, round by round, and a round's messages are
heard after it; `free`: a seat speaks whenever it has new messages.
"""


MOST_CHARACTERS = 20_000
"""Most characters of a seat's message in one turn, so that no seat can fill the context of the others."""


@dataclass(frozen=True, slots=True)
class Utterance:
    """One message of a seat."""

    seat: str
    text: str
    to: str | None = None
    """The only seat that hears it; None for all others."""
    turn: int = 1
    """Number of the seat's turn in which it was said, from 1."""


class Conversation:
    """Seats that talk in turn; what its environment's `reply` and `left` hand on to.

        class Haggle(Environment[EnvironmentConfig]):
            seats = ("buyer", "seller")
            takes_turns = True

            async def setup(self):
                self.talk = Conversation(self.seats, rounds=6)

            async def reply(self, seat, messages):
                return await self.talk.reply(seat, messages)

            def left(self, seat):
                self.talk.leave(seat)

    A seat has `rounds` turns at the most, and `most_characters` in each; what is longer is cut. It hears what others
    have said since its last turn, a message each, beginning with the speaker's name, all further lines indented: no
    seat can speak in another's name. A seat never gets a message addressed to another.
    """

    def __init__(
        self,
        seats: Sequence[str],
        *,
        rounds: int,
        order: TurnOrder = "alternating",
        most_characters: int = MOST_CHARACTERS,
    ) -> None:
        if len(set(seats)) != len(seats) or not seats:
            raise ValueError(f"the seats of a conversation must have different names, not {tuple(seats)}")
        if rounds < 1:
            raise ValueError(f"rounds={rounds}: every seat speaks once at least")
        self.said: list[Utterance] = []
        """All messages so far, in order."""
        self._seats, self._rounds, self._order, self._most = list(seats), rounds, order, most_characters
        self._spent: dict[str, tuple[int, int]] = dict.fromkeys(seats, (0, 0))
        """Seat → number of the turn in which it last spoke, and the characters it has used in that turn."""
        self._unheard = {seat: list[Utterance]() for seat in seats}
        self._turns = dict.fromkeys(seats, 0)
        self._is_over = False
        self._changed = anyio.Event()

    def say(self, seat: str, text: str, *, to: str | None = None) -> None:
        """Add a message outside of the seat's `reply`, such as by a tool: to all, or `to` one seat.

        Raises:
            ValueError: there is no such seat.
        """
        if to is not None and to not in self._turns:
            raise ValueError(f"there is no seat {to!r}; there are {', '.join(self._turns)}")
        self._take(Utterance(seat, text, to, self._turns[seat] + 1))

    def end(self) -> None:
        """End the conversation: waiting seats return."""
        self._is_over = True
        self._wake()

    def leave(self, seat: str) -> None:
        """Go on without a seat. If the seat left before its last turn and only one other is left, the conversation
        is over.
        """
        if seat in self._seats:
            self._seats.remove(seat)
        if self._turns[seat] < self._rounds and len(self._seats) < 2:
            self._is_over = True
        self._wake()

    async def reply(self, seat: str, messages: Sequence[Message]) -> Sequence[Message] | None:
        """Add what a seat has said, wait for its next turn, and return the messages to it; None when the conversation
        is over.

        Called without messages for the seat's first turn.
        """
        if messages and not self._is_over and self._turns[seat] < self._rounds:
            self._turns[seat] += 1
            if words := words_of(messages):
                self._take(Utterance(seat, words, turn=self._turns[seat]))
            self._wake()
        while not self._is_over and self._turns[seat] < self._rounds:
            if self._may_speak(seat, is_first=not messages):
                return self._news(seat)
            await self._changed.wait()
        return None

    def snapshot(self) -> JsonValue:
        """The messages, which seats have heard them, what each has said in its turn, and the seats left, as JSON."""
        return _STATE.dump_python(
            _State(self.said, self._unheard, self._turns, self._seats, self._is_over, self._spent), mode="json"
        )

    def restore(self, state: JsonValue) -> None:
        """Return to a snapshot.

        Raises:
            ValueError: the state is not a conversation's.
        """
        saved = _STATE.validate_python(state)
        self.said, self._unheard, self._turns = saved.said, saved.unheard, saved.turns
        self._seats, self._is_over = saved.seats, saved.is_over
        self._spent = {**dict.fromkeys(saved.turns, (0, 0)), **saved.spent}
        self._wake()

    def _may_speak(self, seat: str, *, is_first: bool) -> bool:
        turns = self._turns
        if self._order == "alternating":
            # Who has spoken least is next; of several, who stands first.
            return min(self._seats, key=lambda each: (turns[each], self._seats.index(each))) == seat
        if self._order == "simultaneous":
            return all(turns[each] >= turns[seat] for each in self._seats)
        return is_first or bool(self._unheard[seat])

    def _news(self, seat: str) -> list[Message]:
        # In a round that is played at once, nobody hears what others say in that round.
        last = self._turns[seat] if self._order == "simultaneous" else None
        waiting = self._unheard[seat]
        news = [said for said in waiting if last is None or said.turn <= last]
        self._unheard[seat] = waiting[len(news) :] if last is None else [said for said in waiting if said.turn > last]
        return [user(f"{said.seat}: " + "\n  ".join(said.text.splitlines())) for said in news]

    def _take(self, said: Utterance) -> None:
        turn, spent = self._spent[said.seat]
        left = self._most - (spent if turn == said.turn else 0)
        self._spent[said.seat] = (said.turn, self._most - left + min(left, len(said.text)))
        if len(said.text) > left:
            if left <= 0:
                return
            said = replace(said, text=f"{said.text[:left]} […]")
        self.said.append(said)
        for seat, waiting in self._unheard.items():
            if seat != said.seat and said.to in (None, seat):
                waiting.append(said)
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


@dataclass(frozen=True, slots=True)
class _State:
    said: list[Utterance]
    unheard: dict[str, list[Utterance]]
    turns: dict[str, int]
    seats: list[str]
    is_over: bool
    spent: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    """Empty in states that an earlier version saved."""


_STATE = TypeAdapter(_State)
