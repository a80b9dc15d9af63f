"""`Rollout`: the library's own loop, stopped wherever it asks a model; and its trajectory as the agent's messages."""

# Its library is installed in the foreign environment alone, and has no types.
# pyright: basic, reportMissingImports=false

import asyncio
from itertools import pairwise
from typing import Any

import verifiers as vf
from verifiers.types import AssistantMessage, Response, ResponseMessage, ToolCall

from rollouthub_servers.foreign.said_steps import shown, taken
from rollouthub_servers.foreign.serving import Refused
from rollouthub_servers.verifiers.score_watch import watched

_MODEL = "policy"
OVER = "The episode is over."


class Left(vf.Error):
    """The agent says nothing more."""


class Asked(vf.Client):
    """A model that waits for the playing agent: holds what it was asked last."""

    def __init__(self) -> None:
        super().__init__(object())
        self.prompt: list[Any] = []
        self.tools: list[Any] = []
        self.said: asyncio.Future[Any] | None = None
        self.wake = asyncio.Event()
        self.state: Any = None
        self.is_environments = False
        """Whether the environment is answering: who asks now is not the loop."""

    async def get_response(
        self, prompt: Any, model: str, sampling_args: Any, tools: Any = None, **more: Any
    ) -> Response:
        """Wait for what the agent says."""
        if self.is_environments or self.said is not None:
            raise vf.ModelError("the environment asks a model itself, and none is given to it")
        self.prompt, self.tools, self.state = list(prompt), list(tools or ()), more.get("state")
        self.said = asyncio.get_running_loop().create_future()
        self.wake.set()
        try:
            message = await self.said
        finally:
            self.said = None
        return Response(
            id="hub",
            created=0,
            model=model,
            message=ResponseMessage(
                **message, finish_reason="tool_calls" if message.get("tool_calls") else "stop", is_truncated=False
            ),
        )

    async def _unasked(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    def setup_client(self, config: Any) -> Any:
        """There is no client below."""
        return config

    to_native_tool = to_native_prompt = get_native_response = _unasked  # type: ignore[assignment]
    raise_from_native_response = from_native_response = _unasked  # type: ignore[assignment]

    async def close(self) -> None:
        """Nothing is open."""


class Rollout:
    """One rollout of a row."""

    def __init__(self, env: Any, envs: "list[Any]", loop: "asyncio.AbstractEventLoop | None" = None) -> None:
        self.env, self.envs = env, envs
        self.client = Asked()
        self.most_turns: int | None = None
        """What the environment allows, once calls are made one by one."""
        self.environment: list[list[Any]] = []
        """What the environment said after each step."""
        self._loop = loop or asyncio.new_event_loop()
        self._task: asyncio.Task[Any] | None = None
        self._known: list[Any] = []
        """The conversation up to what the agent said last."""
        for each in envs:
            self._guard(each)

    def _guard(self, env: Any) -> None:
        own, client = type(env).get_prompt_messages, self.client

        async def get_prompt_messages(state: Any) -> Any:
            client.is_environments = True
            try:
                return await own(env, state)
            finally:
                client.is_environments = False

        env.get_prompt_messages = get_prompt_messages

    def begin(self, row: "dict[str, Any]") -> "dict[str, Any]":
        """Start: the conversation, the tools, and whether it is over already."""
        assert self._task is None, "a rollout begins once"
        self._task = self._loop.create_task(self.env.rollout(row, self.client, _MODEL, {}))
        self._run()
        return self._seen()

    def _run(self) -> None:
        async def until() -> None:
            assert self._task is not None
            woken = asyncio.ensure_future(self.client.wake.wait())
            await asyncio.wait({self._task, woken}, return_when=asyncio.FIRST_COMPLETED)
            woken.cancel()
            self.client.wake.clear()

        self._loop.run_until_complete(until())
        if self.is_over:
            self.state  # noqa: B018  # what it raised is raised here

    @property
    def is_over(self) -> bool:
        """Whether the library's loop has ended."""
        return self._task is not None and self._task.done()

    @property
    def state(self) -> Any:
        """The state, once it is over."""
        assert self._task is not None
        return self._task.result()

    def _seen(self) -> "dict[str, Any]":
        """What is new in the conversation since the agent spoke."""
        if self.is_over:
            told = list(_normal(self.state.get("final_env_response") or []))
            if self._known:
                self.environment.append(told)
        else:
            told = _since(self.client.prompt, self._known)
            if self._known:
                self.environment.append(told)
        tools = [{"name": t.name, "description": t.description, "parameters": t.parameters} for t in self.client.tools]
        return {"messages": [shown(message) for message in told], "tools": tools, "is_over": self.is_over}

    def _say(self, message: "dict[str, Any]") -> "dict[str, Any]":
        if self.is_over or self.client.said is None:
            raise Refused(OVER)
        self._known = [*self.client.prompt, AssistantMessage(**message)]
        self.client.said.set_result(message)
        self._run()
        return self._seen()

    def answer(self, message: "dict[str, Any]") -> "dict[str, Any]":
        """Say a message, with all its calls, and hear what the environment answers."""
        return self._say(assistant_fields(message))

    def call(self, id: str, name: str, arguments: str) -> "dict[str, Any]":
        """Make one call: a step of its own, whose place in a message is only known at the end."""
        if self.most_turns is None:
            allowed = [env.max_turns for env in self.envs if getattr(env, "max_turns", -1) > 0]
            self.most_turns = max(allowed, default=0)
            for env in self.envs:
                env.max_turns = -1  # steps are not turns here; `score` counts those
        return self._say({"content": None, "tool_calls": [ToolCall(id=id, name=name, arguments=arguments)]})

    def replay(self, row: "dict[str, Any]", said: "list[dict[str, Any]]") -> None:
        """Play a whole transcript; what is left of it when the environment has ended is not heard."""
        self.begin(row)
        for message in said:
            if self.is_over:
                return
            self.answer(message)

    def ended(self) -> Any:
        """End it where it stands, and give its state.

        Raises:
            RuntimeError: something that the environment needs failed.
        """
        if not self.is_over:
            assert self.client.said is not None
            self.client.said.set_exception(Left())
            self._run()
        state = self.state
        error = state.get("error")
        if isinstance(error, Left):
            state["error"] = None
            state["stop_condition"] = "agent_left"
        elif error is not None and not isinstance(error, vf.ToolError | getattr(vf, "InvalidModelResponseError", Left)):
            raise RuntimeError(f"the rollout failed: {error!r}; {error.__cause__!r}")
        return state

    def score(self, said: "list[dict[str, Any]]") -> "dict[str, Any]":
        """End it, and have its rubric score it."""
        state = regrouped(self.ended(), self, said)
        with watched() as failed:
            self._loop.run_until_complete(self._scored(state))
        return verdict(state, failed)

    async def _scored(self, state: Any) -> None:
        await self.env.rubric.score_rollout(state)
        cleanup = getattr(self.env.rubric, "cleanup", None)
        if cleanup is not None:
            await cleanup(state)


def verdict(state: Any, failed: "list[dict[str, Any]]") -> "dict[str, Any]":
    """What a rubric has put into a state."""
    return {
        "reward": state["reward"],
        "metrics": dict(state["metrics"] or {}),
        "failed": failed,
        "stop": state.get("stop_condition"),
        "turns": len(state["trajectory"]),
    }


def regrouped(state: Any, rollout: Rollout, said: "list[dict[str, Any]]") -> Any:
    """Put steps of single calls together to the messages that the agent wrote, where a conversation is all there is.

    A message is a turn of the library's, whatever number of calls it makes; of turns there are as many as it allows.
    """
    steps = state["trajectory"]
    if rollout.most_turns is None or not _is_linear(steps):
        return state
    conversation, turns, at = list(state["prompt"]), [], 0
    for message in said:
        count = taken([step["completion"][0] for step in steps], at, message)
        if not count:
            continue  # the environment never saw it
        if rollout.most_turns and len(turns) >= rollout.most_turns:
            break
        written = AssistantMessage(**assistant_fields(message))
        turns.append(dict(steps[at], prompt=list(conversation), completion=[written]))
        answers = [each for told in rollout.environment[at : at + count] for each in told]
        conversation += [written, *answers]
        at += count
    if not turns:
        return state
    state["trajectory"] = turns
    whole = [*turns[-1]["prompt"], *turns[-1]["completion"], *_normal(state.get("final_env_response") or [])]
    state["completion"] = whole[len(state["prompt"]) :]
    return state


def _is_linear(steps: "list[Any]") -> bool:
    """Whether each prompt begins with all that came before."""
    for before, step in pairwise(steps):
        known = len(before["prompt"]) + len(before["completion"])
        if [m.role for m in step["prompt"][:known]] != [m.role for m in (*before["prompt"], *before["completion"])]:
            return False
    return True


def _since(prompt: "list[Any]", known: "list[Any]") -> "list[Any]":
    """What of a prompt is new; where the environment rewrites the conversation, what follows the agent's last words."""
    if [message.role for message in prompt[: len(known)]] == [message.role for message in known]:
        return prompt[len(known) :]
    last = max((at for at, message in enumerate(prompt) if message.role == "assistant"), default=-1)
    return prompt[last + 1 :]


def _normal(messages: Any) -> "list[Any]":
    from verifiers.utils.message_utils import maybe_normalize_messages

    return list(maybe_normalize_messages(messages, field_name="final_env_response"))


def assistant_fields(message: "dict[str, Any]") -> "dict[str, Any]":
    """A message of the hub's in the library's form."""
    calls = [ToolCall(**call) for call in message.get("tool_calls") or ()]
    fields: dict[str, Any] = {"content": message.get("content") or (None if calls else "")}
    if calls:
        fields["tool_calls"] = calls
    if message.get("reasoning_content"):
        fields["reasoning_content"] = message["reasoning_content"]
    return fields
