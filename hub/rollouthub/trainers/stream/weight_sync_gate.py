"""The gate before a model: shut while weights change, and every call that passes knows the version it began with."""

from dataclasses import replace

import anyio

from rollouthub.protocols import Model, ModelReply, ModelRequest, PricedModel
from rollouthub.trainers.stream.policy_version import PolicyVersions


class _Call:
    """A call that is being answered."""

    __slots__ = ("request", "scope")

    def __init__(self, request: ModelRequest) -> None:
        self.request = request
        self.scope = anyio.CancelScope()

    @property
    def may_be_asked_again(self) -> bool:
        """Whether nothing of its answer is out yet."""
        return self.request.stream is None or not self.request.stream.has_begun


class WeightSyncGate:
    """Lets model calls through while it is open."""

    def __init__(self, policy: PolicyVersions) -> None:
        self.policy = policy
        self.aborted = 0
        """Calls broken off, each to be asked again once the gate opens."""
        self._calls: set[_Call] = set()
        self._opened: anyio.Event | None = None
        """None while it is open."""
        self._emptied: anyio.Event | None = None
        self._spans: dict[str, int] = {}

    @property
    def is_open(self) -> bool:
        """Whether calls pass."""
        return self._opened is None

    @property
    def in_flight(self) -> int:
        """Calls that passed and are not answered."""
        return len(self._calls)

    def shut(self) -> None:
        """Hold further calls."""
        self._opened = self._opened or anyio.Event()

    def open(self) -> None:
        """Let them through."""
        if self._opened is not None:
            self._opened.set()
            self._opened = None

    def abort(self) -> None:
        """Break off what is being answered; it is asked again once the gate opens. A stream that has begun goes on."""
        for call in self._calls:
            if call.may_be_asked_again:
                call.scope.cancel()

    async def empty(self) -> None:
        """Wait until nothing is being answered."""
        while self._calls:
            self._emptied = self._emptied or anyio.Event()
            await self._emptied.wait()

    async def pass_through(self, model: Model, request: ModelRequest) -> ModelReply:
        """Ask a model, as often as the call is broken off."""
        while True:
            while self._opened is not None:
                await self._opened.wait()
            reply = await self._ask(model, request)
            if reply is not None:
                return reply
            self.aborted += 1

    async def _ask(self, model: Model, request: ModelRequest) -> ModelReply | None:
        call, version = _Call(request), self.policy.version
        self._calls.add(call)
        try:
            with call.scope:
                reply = await model.generate(request)
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
        """The version at the end of the rollout's latest call during which weights changed; told once."""
        return self._spans.pop(rollout_id, None) if self._spans else None


class GatedModel:
    """A model behind a gate."""

    def __init__(self, model: Model, gate: WeightSyncGate) -> None:
        self._model, self._gate = model, gate

    @property
    def name(self) -> str:
        """The model's own."""
        return self._model.name

    def cost_of(self, prompt_tokens: int, output_tokens: int) -> float | None:
        """US dollars, at the list price or the one that was given; None where there is none."""
        return self._model.cost_of(prompt_tokens, output_tokens) if isinstance(self._model, PricedModel) else None

    async def generate(self, request: ModelRequest) -> ModelReply:
        """Answer one request, once the gate is open; the time before that is not the request's.

        Raises:
            ModelError: the backend failed.
        """
        return await self._gate.pass_through(self._model, request)
