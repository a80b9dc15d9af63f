"""The models an environment asks itself, such as a judge; each call is recorded with its cost."""

import time
from collections.abc import Mapping

from rollouthub.errors import ModelError
from rollouthub.generation import Model, ModelReply, ModelRequest
from rollouthub.messages import holding
from rollouthub.score import ModelCall


class RecordedModel:
    """A model that records its calls for one episode, also failed ones."""

    def __init__(self, role: str, model: Model, calls: list[ModelCall]) -> None:
        self._role, self._model, self._calls = role, model, calls

    @property
    def name(self) -> str:
        """The model's name."""
        return self._model.name

    async def generate(self, request: ModelRequest) -> ModelReply:
        """Ask the model, and record the answer or the failure.

        Raises:
            ModelError: the model failed.
        """
        started = time.perf_counter()
        try:
            reply = await self._model.generate(request)
        except ModelError as error:
            self._note(request, None, started, str(error))
            raise
        except BaseException as error:
            self._note(request, None, started, f"not finished: {type(error).__name__}")
            raise
        self._note(request, reply, started)
        return reply

    def _note(self, request: ModelRequest, reply: ModelReply | None, started: float, error: str | None = None) -> None:
        self._calls.append(
            ModelCall(
                role=self._role,
                model=self.name,
                messages=holding(request.messages, request.media) if request.media else tuple(request.messages),
                response=None if reply is None else reply.message,
                error=error,
                prompt_tokens=0 if reply is None else reply.usage.prompt_tokens,
                output_tokens=0 if reply is None else reply.usage.output_tokens,
                cost=None if reply is None else reply.cost,
                seconds=time.perf_counter() - started,
            )
        )


def recorded(models: Mapping[str, Model], calls: list[ModelCall]) -> dict[str, Model]:
    """Every role's model, noting its calls in `calls`."""
    return {role: RecordedModel(role, model, calls) for role, model in models.items()}
