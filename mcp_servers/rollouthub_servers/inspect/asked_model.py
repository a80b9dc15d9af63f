"""`AskedModel`: the model that Inspect evaluates, in place of which our agent answers; it judges nothing."""

# Its library is installed in the foreign environment alone, and has no types.
# pyright: basic, reportMissingImports=false

import asyncio
import base64
import json
import mimetypes
from pathlib import Path
from typing import Any

from inspect_ai.model import ChatMessageAssistant, GenerateConfig, Model, ModelAPI, ModelOutput, get_model, modelapi

_ADDRESSES = ("data:", "http:", "https:")
_NO_JUDGE = "a scorer asks a model, and none is given to it"
_ELSEWHERE = "the task asks a model in a conversation of its own, and none is given to it"
_BESIDE = "the task asks the model several times at once, and an agent has one conversation"


class NoModelError(ConnectionError):
    """The task asks a model that is not the agent: a service that is not there."""


class AskedModel(ModelAPI):
    """Waits for what the agent says; holds what it was asked last."""

    def __init__(self, model_name: str, *_: Any, **__: Any) -> None:
        super().__init__(model_name)
        self.prompt: list[Any] = []
        self.tools: list[Any] = []
        self.said: asyncio.Future[Any] | None = None
        self.answers: list[Any] = []
        """What the agent has said, as the library's messages; they are those of its conversation."""
        self.wake = asyncio.Event()
        self.left: BaseException | None = None
        """What a solver gets that goes on asking once the agent has left."""
        self.is_scoring = False
        self.problem: NoModelError | None = None
        """Why what comes of this rollout means nothing."""

    async def generate(self, input: Any, tools: Any, tool_choice: Any, config: Any) -> ModelOutput:
        """Wait for what the agent says."""
        if self.is_scoring:
            raise self._refuse(_NO_JUDGE)
        if self.left is not None:
            raise self.left
        if self.said is not None:
            raise self._refuse(_BESIDE)
        if self.answers and not self._knows(input):
            raise self._refuse(_ELSEWHERE)
        self.prompt, self.tools = list(input), list(tools)
        self.said = asyncio.get_running_loop().create_future()
        self.wake.set()
        try:
            message: ChatMessageAssistant = await self.said
        finally:
            self.said = None
        self.answers.append(message)
        return ModelOutput.from_message(message, "tool_calls" if message.tool_calls else "stop")

    def _refuse(self, why: str) -> NoModelError:
        self.problem = self.problem or NoModelError(why)
        return self.problem

    def _knows(self, prompt: Any) -> bool:
        """Whether the agent said something of a conversation."""
        said = {_plain(each) for each in self.answers}
        return any(message.role == "assistant" and _plain(message) in said for message in prompt)

    async def count_tokens(self, *_: Any, **__: Any) -> int:
        """Nothing is counted: the library's own way downloads a vocabulary."""
        return 0

    def max_connections(self) -> int:
        """One conversation."""
        return 1


def _plain(message: Any) -> "tuple[str, tuple[str, ...]]":
    return message.text, tuple(call.id for call in message.tool_calls or ())


@modelapi(name="hub")
def hub() -> type[ModelAPI]:
    """Register it, as the library takes no model that is not."""
    return AskedModel


def asked_model() -> "tuple[Model, AskedModel]":
    """A model for one rollout, of which the library retries nothing; and what answers in it."""
    model = get_model("hub/agent", memoize=False, config=GenerateConfig(max_retries=0))
    assert isinstance(model.api, AskedModel)
    return model, model.api


def shown(message: Any) -> "dict[str, Any]":
    """A message as the agent may see it: its role, its words and pictures, its calls, and nothing else."""
    content = message.content
    found: dict[str, Any] = {
        "role": message.role,
        "content": content if isinstance(content, str) else [_part(part) for part in content],
    }
    calls = getattr(message, "tool_calls", None)
    if calls:
        found["tool_calls"] = [
            {"id": c.id, "name": c.function, "arguments": json.dumps(c.arguments, default=str)} for c in calls
        ]
    if message.role == "tool":
        found["tool_call_id"] = message.tool_call_id
        if message.error is not None:
            found["content"] = message.error.message
    return found


def _part(part: Any) -> "dict[str, str]":
    if part.type == "image" and _is_shown(part.image):
        return {"url": data_url(part.image)}
    text = getattr(part, "text", None)
    return {"text": text if isinstance(text, str) else f"[{part.type}]"}


def _is_shown(place: str) -> bool:
    """Whether an address is a picture's: a tool may take the agent's word for the place of one."""
    kind = mimetypes.guess_type(place)[0]
    return place.startswith(_ADDRESSES) or (kind is not None and kind.startswith("image/") and Path(place).is_file())


def data_url(place: str) -> str:
    """A picture that stands in its address; what is elsewhere stays there."""
    if place.startswith(_ADDRESSES):
        return place
    kind = mimetypes.guess_type(place)[0] or "image/png"
    return f"data:{kind};base64,{base64.b64encode(Path(place).read_bytes()).decode()}"
