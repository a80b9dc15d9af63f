"""Environments with several seats: everyone plays at once, and the record says who said what."""

from collections.abc import Iterable, Sequence

import anyio

from rollouthub import (
    Deadlines,
    Environment,
    EnvironmentConfig,
    Message,
    ModelError,
    Outcome,
    Public,
    Score,
    Secret,
    Stop,
    Submission,
    Task,
    ToolRequest,
    tool,
)
from rollouthub.protocols import Seat

from .conftest import Counter, Player, TellModel


class Handover(Environment[EnvironmentConfig]):
    """One seat gives, the other takes; neither can do the other's part."""

    seats = ("giver", "taker")
    submits = False

    @classmethod
    def tasks(cls, config: EnvironmentConfig, split: str, seed: int) -> Iterable[Task[Public, Secret]]:
        yield Task(Public(id="only", prompt="hand it over"), Secret())

    async def setup(self) -> None:
        self.given = anyio.Event()
        self.taken = ""

    def messages(self, seat: str) -> Sequence[Message]:
        return [Message(role="user", content=f"you are the {seat}")]

    @tool(seats=("giver",))
    async def give(self, thing: str) -> str:
        """Give something."""
        self.thing = thing
        self.given.set()
        return "given"

    @tool(seats=("taker",))
    async def take(self) -> str:
        """Wait for it, and take it."""
        await self.given.wait()
        self.taken = self.thing
        return self.taken

    async def verify(self, submission: Submission) -> Score:
        return Score(reward=float(self.taken == "apple"), passed=self.taken == "apple")


class Hands:
    """Plays whichever seat it is given."""

    name = "hands"
    version = "1"
    config = {}

    async def play(self, seat: Seat) -> Stop:
        name, arguments = ("give", '{"thing": "apple"}') if seat.name == "giver" else ("take", "{}")
        request = ToolRequest(id=f"{seat.name}-1", name=name, arguments=arguments)
        seat.say(seat.messages, Message(role="assistant", tool_requests=(request,)))
        await seat.call_tools([request])
        return Stop.FINISHED


async def test_seats_play_at_once_and_are_told_apart(attempt: Player) -> None:
    with anyio.fail_after(5):
        rollout = await attempt(Hands(), environment=Handover).play()
    assert rollout.outcome is Outcome.SCORED
    assert rollout.reward == 1.0
    spoken = {turn.agent: turn for turn in rollout.turns}
    assert set(spoken) == {"giver", "taker"}
    assert spoken["giver"].parent_turn is None
    assert spoken["taker"].parent_turn is None
    assert spoken["taker"].messages[0].text == "you are the taker"
    assert spoken["taker"].tool_calls[0].name == "take"


async def test_a_seat_has_only_its_own_tools(attempt: Player) -> None:
    class Thief(Hands):
        async def play(self, seat: Seat) -> Stop:
            if seat.name == "giver":
                assert [tool.name for tool in seat.tools] == ["give"]
                return await super().play(seat)
            request = ToolRequest(id="t", name="give", arguments='{"thing": "stone"}')
            seat.say(seat.messages, Message(role="assistant", tool_requests=(request,)))
            (answer,) = await seat.call_tools([request])
            assert "unknown tool 'give'" in answer.text
            return Stop.FINISHED

    rollout = await attempt(Thief(), environment=Handover).play()
    assert rollout.outcome is Outcome.SCORED, rollout.faults
    assert rollout.reward == 0.0


async def test_a_single_seat_is_called_agent(attempt: Player) -> None:
    assert Counter.seats == ("agent",)
    rollout = await attempt(Hands()).play()
    assert rollout.turns[0].agent == "agent"


async def test_what_breaks_at_one_seat_ends_the_others_and_keeps_its_name(attempt: Player) -> None:
    class Waiting(Hands):
        async def play(self, seat: Seat) -> Stop:
            if seat.name == "giver":
                await seat.generate(seat.messages)
            await anyio.sleep_forever()
            return Stop.FINISHED

    with anyio.fail_after(5):
        rollout = await attempt(Waiting(), TellModel([ModelError("down")]), environment=Handover).play()
    assert rollout.outcome is Outcome.MODEL_FAILED
    assert [fault.boundary for fault in rollout.faults] == ["model"]


class Table(Handover):
    """Whoever says something has earned it; neither needs the other."""

    async def verify(self, submission: Submission) -> Score:
        return Score(reward=0.5, seat_rewards={seat: float(seat == "taker") for seat in self.seats})


class Falling(Hands):
    """Fails at some seats, and says something at the others."""

    def __init__(self, *seats: str) -> None:
        self.seats = seats

    async def play(self, seat: Seat) -> Stop:
        if seat.name in self.seats:
            raise RuntimeError("tripped")
        seat.say(seat.messages, Message(role="assistant", content="here"))
        return Stop.FINISHED


async def test_an_agent_that_fails_at_one_seat_leaves_the_others_to_be_scored(attempt: Player) -> None:
    rollout = await attempt(Falling("giver"), environment=Table).play()
    assert (rollout.outcome, rollout.stop, rollout.reward_of("taker")) == (Outcome.SCORED, Stop.FAILED, 1.0)
    assert [(fault.boundary, fault.message) for fault in rollout.faults] == [
        ("agent", "seat 'giver': the agent raised RuntimeError: tripped")
    ]
    assert rollout.trainable_reason == "the agent failed at seat giver"


async def test_where_every_seat_fails_the_agent_has_failed(attempt: Player) -> None:
    rollout = await attempt(Falling("giver", "taker"), environment=Table).play()
    assert (rollout.outcome, rollout.score) == (Outcome.AGENT_FAILED, None)
    (fault,) = rollout.faults
    assert "seat 'giver'" in fault.message
    assert "seat 'taker'" in fault.message


async def test_an_agent_that_hangs_at_one_seat_does_not_take_the_score_of_who_waited(attempt: Player) -> None:
    class Hanging(Hands):
        async def play(self, seat: Seat) -> Stop:
            if seat.name == "taker":
                return await super().play(seat)
            await anyio.sleep_forever()
            return Stop.FINISHED

    with anyio.fail_after(10):
        rollout = await attempt(Hanging(), environment=Table, deadlines=Deadlines(agent=0.2)).play()
    assert (rollout.outcome, rollout.reward_of("taker")) == (Outcome.SCORED, 1.0)
    assert [fault.message for fault in rollout.faults] == ["seat 'giver': its agent had not stopped after 0.2 s"]


async def test_where_all_hang_the_agent_has_failed(attempt: Player) -> None:
    class Hanging(Hands):
        async def play(self, seat: Seat) -> Stop:
            await anyio.sleep_forever()
            return Stop.FINISHED

    with anyio.fail_after(10):
        rollout = await attempt(Hanging(), environment=Table, deadlines=Deadlines(agent=0.2)).play()
    assert (rollout.outcome, rollout.score) == (Outcome.AGENT_FAILED, None)
