"""A gate in front of a model: closed while weights are updated; calls that pass are stamped with their policy
version.
"""

from dataclasses import replace

import anyio

from rollouthub.engine.open_plan import OpenPlan
from rollouthub.generation import Model, ModelReply, ModelRequest, PricedModel
from rollouthub.trainers.stream.policy_version import PolicyVersions


class _GatedCall:
    """A model call in flight."""

    __slots__ = ("request", "scope")

    def __init__(self, request: ModelRequest) -> None:
        self.request = request
        self.scope = anyio.CancelScope()

    @property
    def may_be_asked_again(self) -> bool:
        """Whether the call can be repeated, because no part of its answer was streamed yet."""
        return self.request.stream is None or not self.request.stream.has_begun


class WeightSyncGate:
    """Lets model calls through while it is open, and holds them while it is closed."""

    def __init__(self, policy: PolicyVersions) -> None:
        self.policy = policy
        self.adapter: str | None = None
        """The LoRA adapter that calls ask for, empty for the model itself; None where versions are no adapters."""
        self.aborted = 0
        """How many calls were cancelled, to be repeated once the gate opens."""
        self._calls: set[_GatedCall] = set()
        self._opened: anyio.Event | None = None
        """The event that is set when the gate opens; None while it is open."""
        self._emptied: anyio.Event | None = None
        self._spans: dict[str, int] = {}

    @property
    def is_open(self) -> bool:
        """Whether calls pass."""
        return self._opened is None

    @property
    def in_flight(self) -> int:
        """How many calls have passed and are not answered."""
        return len(self._calls)

    def shut(self) -> None:
        """Hold further calls."""
        self._opened = self._opened or anyio.Event()

    def open(self) -> None:
        """Let held calls through."""
        if self._opened is not None:
            self._opened.set()
            self._opened = None

    def abort(self) -> None:
        """Cancel calls in flight; they are repeated once the gate opens. Calls that have begun to stream continue."""
        for call in self._calls:
            if call.may_be_asked_again:
                call.scope.cancel()

    async def empty(self) -> None:
        """Wait until no call is in flight."""
        while self._calls:
            self._emptied = self._emptied or anyio.Event()
            await self._emptied.wait()

    async def pass_through(self, model: Model, request: ModelRequest) -> ModelReply:
        """Call the model, and repeat the call each time it is cancelled by `abort`."""
        while True:
            while self._opened is not None:
                await self._opened.wait()
            reply = await self._ask(model, request)
            if reply is not None:
                return reply
            self.aborted += 1

    async def _ask(self, model: Model, request: ModelRequest) -> ModelReply | None:
        version, adapter = self.policy.version, self.adapter
        call = _GatedCall(replace(request, adapter=adapter) if adapter else request)
        self._calls.add(call)
        try:
            with call.scope:
                reply = await model.generate(call.request)
                if adapter is not None and reply.model is None:
                    # An answer ends with the adapter that it began with, whatever the server says of its own weights.
                    return replace(reply, policy_version=version, policy_versions=None)
                if reply.model is None and reply.policy_version is None:
                    if self.policy.version != version and request.session:
                        self._spans[request.session] = self.policy.version
                    reply = replace(reply, policy_version=version)
                return reply
        finally:
            self._calls.discard(call)
            if not self._calls and self._emptied is not None:
                self._emptied.set()
                self._emptied = None
        return None

    def span_of(self, rollout_id: str) -> int | None:
        """The policy version at the end of the rollout's latest call during which weights changed; None if there was
        none. Reading clears it.
        """
        return self._spans.pop(rollout_id, None) if self._spans else None


class GatedModel:
    """A model whose calls pass through a `WeightSyncGate`."""

    def __init__(self, model: Model, gate: WeightSyncGate) -> None:
        self._model, self._gate = model, gate

    @property
    def name(self) -> str:
        """The underlying model's name."""
        return self._model.name

    def cost_of(self, prompt_tokens: int, output_tokens: int) -> float | None:
        """Price of a call in US dollars, at the list price or a configured one; None if no price is known."""
        return self._model.cost_of(prompt_tokens, output_tokens) if isinstance(self._model, PricedModel) else None

    async def generate(self, request: ModelRequest) -> ModelReply:
        """Answer one request once the gate is open; waiting for the gate does not count as the request's time.

        Raises:
            ModelError: the backend failed.
        """
        return await self._gate.pass_through(self._model, request)


def with_gated_model(opened: OpenPlan, gate: WeightSyncGate) -> OpenPlan:
    """What is played, with the model's calls held while a trainer changes its weights."""
    return opened if opened.model is None else replace(opened, model=GatedModel(opened.model, gate))
