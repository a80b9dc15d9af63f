"""Episodes in lock-step: each waits for the trainer's next action, and none goes on before all have theirs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import anyio

from rollouthub.errors import ContextLimitError, ModelError
from rollouthub.messages import Message
from rollouthub.protocols import ModelReply, ModelRequest, Sampling
from rollouthub.rollout import Rollout
from rollouthub.trainers.stream import RolloutWorker, SampleRequest
from rollouthub.trainers.verl_agent.observation import Projected

SLOT = "rollouthub_slot"
"""In a request's sampling: which place of the batch its episode has."""


@dataclass(frozen=True, slots=True)
class Given:
    """An action to be taken: its message, or None where the episode is to end as it is."""

    message: Message | None


class Slot:
    """One place of the batch, and the episode that is played in it."""

    def __init__(self, wanted: SampleRequest) -> None:
        self.wanted = wanted
        self.request: ModelRequest | None = None
        """What the episode asks its policy now."""
        self.rollout: Rollout | None = None
        """Once it is over."""
        self.failure: Exception | None = None
        self._given: Given | None = None
        self._changed = anyio.Event()

    @property
    def is_settled(self) -> bool:
        """Whether it waits for the trainer, or is over."""
        return self.request is not None or self.is_over

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes of it."""
        return self.rollout is not None or self.failure is not None

    def change(self) -> None:
        """Tell who waits that something is otherwise."""
        self._changed.set()
        self._changed = anyio.Event()

    async def settled(self) -> None:
        """Wait until it waits for the trainer, or is over."""
        while not self.is_settled:
            await self._changed.wait()

    async def ask(self, request: ModelRequest) -> Message | None:
        """Wait for the trainer's action; None where there is to be none."""
        self.request, self._given = request, None
        self.change()
        try:
            while self._given is None:
                await self._changed.wait()
            return self._given.message
        finally:
            self.request = None  # also where a limit of the episode's came first

    def give(self, message: Message | None) -> None:
        """Take an action."""
        assert self.request is not None, "an action answers a question"
        self.request, self._given = None, Given(message)
        self.change()


class StepModel:
    """The trainer's policy as a model: every call waits for the action of its slot."""

    name = "verl-agent"

    def __init__(self) -> None:
        self.slots: Sequence[Slot] = ()

    async def generate(self, request: ModelRequest) -> ModelReply:
        """The trainer's next action.

        Raises:
            ContextLimitError: the trainer takes no more steps; what is there is scored.
            ModelError: the trainer has begun another batch.
        """
        place = request.sampling.extra.get(SLOT)
        slots = self.slots
        if not isinstance(place, int) or place >= len(slots):
            raise ModelError("a model call belongs to no place of the trainer's batch", retryable=False)
        message = await slots[place].ask(request)
        if message is None:
            raise ContextLimitError("the trainer takes no more steps in this episode")
        return ModelReply(message=message, finish_reason="tool_calls" if message.tool_requests else "stop")


class LockStep:
    """A batch of episodes, on the event loop of their worker."""

    def __init__(self, worker: RolloutWorker, model: StepModel) -> None:
        self._worker, self._model = worker, model

    async def begin(self, wanted: Sequence[SampleRequest]) -> list[Slot]:
        """Give up what is still played, and make places for these; `play` fills them."""
        for slot in self._model.slots:
            if slot.request is not None:
                slot.give(None)
            while not slot.is_over:
                await slot.settled()
                if slot.request is not None:
                    slot.give(None)
        slots = [Slot(each) for each in wanted]
        for place, slot in enumerate(slots):
            sampling = slot.wanted.sampling or Sampling()
            marked = sampling.model_copy(update={"extra": {**sampling.extra, SLOT: place}})
            slot.wanted = replace(slot.wanted, sampling=marked)
        self._model.slots = slots
        return slots

    async def play(self, slot: Slot) -> None:
        """Play one place to its end."""
        try:
            slot.rollout = await self._worker.play(slot.wanted)
        except Exception as error:  # told to who waits for the place; nobody awaits this task
            slot.failure = error
        finally:
            slot.change()

    async def step(self, slots: Sequence[Slot], actions: Mapping[int, Projected], ending: Sequence[int] = ()) -> None:
        """Take the actions of some places, and wait until every place waits or is over.

        Places that are `ending` take their action, and no other after it.

        Raises:
            UsageError, SupplyError, StoreError: an episode could not be played.
        """
        for place, action in actions.items():
            if slots[place].request is not None:  # else a limit of the episode's came first
                slots[place].give(action.message)
        for place, slot in enumerate(slots):
            await slot.settled()
            while place in ending and not slot.is_over:
                slot.give(None)
                await slot.settled()
            if slot.failure is not None:
                raise slot.failure
