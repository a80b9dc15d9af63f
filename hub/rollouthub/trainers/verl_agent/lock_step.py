"""Episodes in lock-step: each waits for the trainer's next action, and all get their actions together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import anyio

from rollouthub.errors import ContextLimitError, ModelError
from rollouthub.generation import ModelReply, ModelRequest, Sampling
from rollouthub.messages import Message
from rollouthub.rollout import Rollout
from rollouthub.trainers.stream import RolloutWorker, SampleRequest
from rollouthub.trainers.verl_agent.observation import Projected

SLOT = "rollouthub_slot"
"""Key in a request's sampling settings for the episode's index in the batch."""


@dataclass(frozen=True, slots=True)
class Given:
    """The trainer's action: a message, or None to end the episode as it is."""

    message: Message | None


class Slot:
    """One position in the batch, and the episode that is played there."""

    def __init__(self, wanted: SampleRequest) -> None:
        self.wanted = wanted
        self.request: ModelRequest | None = None
        """The model call that waits for the trainer's action."""
        self.rollout: Rollout | None = None
        """The finished rollout; None while the episode runs, or waits for the verdict on its group."""
        self.is_waiting = False
        """Whether the episode is over, and waits for the verdict on its group."""
        self.failure: Exception | None = None
        self._given: Given | None = None
        self._seat: str | None = None
        self._changed = anyio.Event()

    @property
    def is_settled(self) -> bool:
        """Whether the episode waits for the trainer, or is over."""
        return self.request is not None or self.is_over

    @property
    def is_over(self) -> bool:
        """Whether the episode has ended or failed."""
        return self.rollout is not None or self.failure is not None or self.is_waiting

    def change(self) -> None:
        """Wake all tasks that wait for a change of this slot."""
        self._changed.set()
        self._changed = anyio.Event()

    async def settled(self) -> None:
        """Wait until the episode waits for the trainer, or is over."""
        while not self.is_settled:
            await self._changed.wait()

    def wait(self) -> None:
        """Note that the episode is over, and waits for the verdict on its group."""
        self.is_waiting = True
        self.change()

    async def judged(self) -> None:
        """Wait until the episode that is over has its verdict, or failed.

        Raises:
            UsageError, SupplyError, StoreError: the episode could not be played.
        """
        while self.rollout is None and self.failure is None:
            await self._changed.wait()
        if self.failure is not None:
            raise self.failure

    async def ask(self, request: ModelRequest) -> Message | None:
        """Wait for the trainer's action on a model call; None if the trainer ends the episode.

        Raises:
            ModelError: the policy plays another seat of the episode, too.
        """
        self._seat = self._seat or request.seat
        if request.seat != self._seat:
            raise ModelError(
                f"verl-agent's loop acts at one seat, and the policy plays {self._seat!r} and {request.seat!r}; give "
                "the others models of their own",
                retryable=False,
            )
        self.request, self._given = request, None
        self.change()
        try:
            while self._given is None:
                await self._changed.wait()
            return self._given.message
        finally:
            self.request = None  # also where a limit of the episode's came first

    def give(self, message: Message | None) -> None:
        """Answer the waiting model call with the trainer's action."""
        assert self.request is not None, "an action answers a question"
        self.request, self._given = None, Given(message)
        self.change()


class StepModel:
    """The trainer's policy as a model: every call waits for the action of its slot."""

    name = "verl-agent"

    def __init__(self) -> None:
        self.slots: Sequence[Slot] = ()

    async def generate(self, request: ModelRequest) -> ModelReply:
        """Wait for the trainer's next action, and return it.

        Raises:
            ContextLimitError: the trainer takes no more steps in this episode, which is then scored as it is.
            ModelError: the call belongs to no slot of the current batch.
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
    """A batch of episodes, in their worker's event loop."""

    def __init__(self, worker: RolloutWorker, model: StepModel) -> None:
        self._worker, self._model = worker, model

    async def begin(self, wanted: Sequence[SampleRequest]) -> list[Slot]:
        """End the episodes of the last batch, and make slots for the new one; `play` fills them."""
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
        """Play one slot's episode to its end."""
        try:
            slot.rollout = await self._worker.play(slot.wanted, on_waiting=slot.wait)
        except Exception as error:  # told to who waits for the place; nobody awaits this task
            slot.failure = error
        finally:
            slot.change()

    async def judged(self, slots: Sequence[Slot]) -> None:
        """Wait for the verdicts of the slots whose episodes are over.

        Raises:
            UsageError, SupplyError, StoreError: an episode could not be played.
        """
        for slot in slots:
            if slot.is_over:
                await slot.judged()

    async def step(self, slots: Sequence[Slot], actions: Mapping[int, Projected], ending: Sequence[int] = ()) -> None:
        """Take the actions of some slots, and wait until every slot is settled.

        Episodes of slots in `ending` take this action, and then end.

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
