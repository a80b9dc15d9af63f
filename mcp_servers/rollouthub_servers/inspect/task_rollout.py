"""`SampleRollout`: Inspect's own evaluation of one sample, stopped wherever it asks the model, and before it scores."""

# Its library is installed in the foreign environment alone, and has no types.
# pyright: basic, reportMissingImports=false

import asyncio
import copy
import json
import math
import tempfile
from pathlib import Path
from typing import Any

from inspect_ai import Task, eval_async
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessageAssistant
from inspect_ai.scorer import value_to_float
from inspect_ai.solver import solver
from inspect_ai.tool import ToolCall
from inspect_ai.util import LimitExceededError

from rollouthub_servers.foreign.said_steps import taken
from rollouthub_servers.foreign.serving import Refused
from rollouthub_servers.inspect.asked_model import asked_model, shown

OVER = "The episode is over."
_LETTERS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
_WORDS = {"yes", "true", "no", "false"}
_MOST = 400


class SampleRollout:
    """One rollout of a sample."""

    def __init__(self, task: Task) -> None:
        self._model, self.model = asked_model()
        self._task = copy.copy(task)
        self._own = task.solver
        self._loop = asyncio.new_event_loop()
        self._eval: asyncio.Task[Any] | None = None
        self._is_solved = False
        self._may_score = asyncio.Event()
        self._known: list[Any] = []
        """The conversation up to what the agent said last."""

    def begin(self, row: "dict[str, Any]") -> "dict[str, Any]":
        """Start: the conversation, the tools, and whether it is over already."""
        assert self._eval is None, "a rollout begins once"
        self._task.dataset = MemoryDataset([Sample.model_validate(row)])
        self._task.solver = self._played()
        self._eval = self._loop.create_task(self._evaluated())
        self._run()
        return self._seen()

    def _played(self) -> Any:
        own, rollout = self._own, self

        @solver
        def played() -> Any:
            async def solve(state: Any, generate: Any) -> Any:
                try:
                    state = await own(state, generate)
                except LimitExceededError:
                    await rollout._solved()
                    raise
                await rollout._solved()
                return state

            return solve

        return played()

    async def _solved(self) -> None:
        self._is_solved = True
        self.model.wake.set()
        await self._may_score.wait()
        self.model.is_scoring = True

    async def _evaluated(self) -> Any:
        (log,) = await eval_async(
            self._task,
            model=self._model,
            epochs=1,
            log_dir=str(Path(tempfile.gettempdir(), "logs")),
            log_format="json",
            log_realtime=False,
            debug_errors=True,
        )
        return log

    def _run(self) -> None:
        async def until() -> None:
            assert self._eval is not None
            woken = asyncio.ensure_future(self.model.wake.wait())
            await asyncio.wait({self._eval, woken}, return_when=asyncio.FIRST_COMPLETED)
            woken.cancel()
            self.model.wake.clear()

        self._loop.run_until_complete(until())
        if self._eval is not None and self._eval.done():
            self._log()  # what it raised is raised here

    def _log(self) -> Any:
        assert self._eval is not None
        try:
            log = self._eval.result()
        except BaseExceptionGroup as group:
            raise _first(group) from group
        if self.model.problem is not None:
            raise self.model.problem
        return log

    @property
    def is_over(self) -> bool:
        """Whether the library's solvers have ended."""
        return self._is_solved or (self._eval is not None and self._eval.done())

    def _seen(self) -> "dict[str, Any]":
        """What is new in the conversation since the agent spoke."""
        if self.model.problem is not None:
            raise self.model.problem
        told = [] if self.is_over else since(self.model.prompt, self._known)
        tools = [
            {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters.model_dump(mode="json", exclude_none=True),
            }
            for tool in self.model.tools
        ]
        return {"messages": [shown(message) for message in told], "tools": tools, "is_over": self.is_over}

    def _say(self, message: ChatMessageAssistant) -> "dict[str, Any]":
        if self.is_over or self.model.said is None:
            raise Refused(OVER)
        self._known = [*self.model.prompt, message]
        self.model.said.set_result(message)
        self._run()
        return self._seen()

    def answer(self, message: "dict[str, Any]") -> "dict[str, Any]":
        """Say a message, with all its calls, and hear what the task answers."""
        return self._say(said_message(message))

    def call(self, id: str, name: str, arguments: str) -> "dict[str, Any]":
        """Make one call: a message of its own."""
        call = {"id": id, "name": name, "arguments": arguments}
        return self._say(said_message({"content": "", "tool_calls": [call]}))

    def replay(self, row: "dict[str, Any]", said: "list[dict[str, Any]]") -> None:
        """Play a whole transcript; what is left of it when the task has ended is not heard."""
        self.begin(row)
        for message in said:
            if self.is_over:
                return
            self.answer(message)

    def score(self, said: "list[dict[str, Any]]") -> "dict[str, Any]":
        """End it where it stands, and have its scorers score it."""
        assert self._eval is not None
        self._put_beside(said)
        left = self.model.left = LimitExceededError("custom", value=1, limit=1, message="The agent left.")
        if self.model.said is not None:
            self.model.said.set_exception(left)
        self._may_score.set()
        self._loop.run_until_complete(asyncio.wait({self._eval}))
        return verdict(self._log())

    def close(self) -> None:
        """End its loop, and the threads that it started."""
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    def _put_beside(self, said: "list[dict[str, Any]]") -> None:
        """Give calls that were made one by one the words that their message has beside them."""
        steps, at = self.model.answers, 0
        for message in said:
            count = taken([_Step(step) for step in steps], at, message)
            if count and steps[at].tool_calls and message.get("content"):
                steps[at].content = message["content"]
            at += count


class _Step:
    """A message of the agent's in the form of `said_steps`."""

    def __init__(self, message: Any) -> None:
        self.content = message.text
        self.tool_calls = [_Call(call) for call in message.tool_calls or ()]


class _Call:
    def __init__(self, call: Any) -> None:
        self.name, self.arguments = call.function, json.dumps(call.arguments)


def said_message(message: "dict[str, Any]") -> ChatMessageAssistant:
    """A message of the hub's in the library's form."""
    calls = [_tool_call(call) for call in message.get("tool_calls") or ()]
    return ChatMessageAssistant(content=message.get("content") or "", tool_calls=calls or None, source="generate")


def _tool_call(call: "dict[str, str]") -> ToolCall:
    try:
        arguments = json.loads(call["arguments"] or "{}")
        problem = None if isinstance(arguments, dict) else "the arguments are no object"
    except ValueError as error:
        arguments, problem = {}, f"the arguments are no JSON: {error}"
    return ToolCall(
        id=call["id"],
        function=call["name"],
        arguments=arguments if isinstance(arguments, dict) else {},
        parse_error=problem,
    )


def since(prompt: "list[Any]", known: "list[Any]") -> "list[Any]":
    """What of a prompt is new; where the task rewrites the conversation, what follows the agent's last words."""
    if [message.role for message in prompt[: len(known)]] == [message.role for message in known]:
        return prompt[len(known) :]
    last = max((at for at, message in enumerate(prompt) if message.role == "assistant"), default=-1)
    return prompt[last + 1 :]


def verdict(log: Any) -> "dict[str, Any]":
    """What the scorers say: each value as figures by name, in their order."""
    (sample,) = log.samples
    scores = [_figures(name, score) for name, score in (sample.scores or {}).items()]
    return {"scores": scores, "limit": None if sample.limit is None else str(sample.limit.type)}


def _figures(name: str, score: Any) -> "dict[str, Any]":
    value = score.value
    if isinstance(value, dict):
        figures = {f"{name}.{key}": _figure(each) for key, each in value.items()}
    elif isinstance(value, list):
        figures = {f"{name}.{at}": _figure(each) for at, each in enumerate(value)}
    else:
        figures = {name: _figure(value)}
    return {
        "name": name,
        "figures": figures,
        "passed": _passed(value),
        "said": str(score.explanation or score.answer or "")[:_MOST],
        "value": str(value)[:_MOST],
    }


def _passed(value: Any) -> "bool | None":
    """What a value says that is right or wrong, and nothing between."""
    return value == "C" if isinstance(value, str) and value in _LETTERS else value if isinstance(value, bool) else None


def _figure(value: Any) -> "float | None":
    """A value as Inspect's metrics count it; None for what they would make 0 with a warning."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return None
    if isinstance(value, str) and value not in _LETTERS and value.lower() not in _WORDS:
        try:
            return float(value)
        except ValueError:
            return None
    return float(value_to_float()(value))


def _first(group: BaseException) -> BaseException:
    while isinstance(group, BaseExceptionGroup):
        group = group.exceptions[0]
    return group
