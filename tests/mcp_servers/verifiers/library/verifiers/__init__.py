"""A library of the shape of verifiers 0.2, as small as its drivers need it; for tests."""

# pyright: basic

import importlib
import inspect
import json
import logging
from typing import Any

from verifiers import types


class Error(Exception):
    """Of the library."""


class ModelError(Error):
    """Of a model."""


class ToolError(Error):
    """Of a tool."""


class MissingKeyError(ValueError):
    """A key is not there."""

    def __init__(self, missing_keys: "list[str]") -> None:
        super().__init__(f"missing {missing_keys}")
        self.missing_keys = missing_keys


class Client:
    """Asks a model."""

    def __init__(self, client_or_config: Any) -> None:
        self.client = client_or_config


class Rubric:
    """Reward functions, each of weight 1."""

    def __init__(self, *funcs: Any) -> None:
        self.funcs, self.logger = list(funcs), logging.getLogger("verifiers.rubrics.Rubric")
        self.has_group_rewards = False

    async def score_rollout(self, state: Any) -> None:
        """Sum them; one that fails is 0."""
        state["metrics"] = {func.__name__: await self._called(func, state) for func in self.funcs}
        state["reward"] = sum(state["metrics"].values())

    async def _called(self, func: Any, state: Any) -> float:
        try:
            given = {"completion": state["completion"], "answer": state["input"].get("answer"), "state": state}
            made = func(**{name: given[name] for name in inspect.signature(func).parameters})
            return float(await made if inspect.isawaitable(made) else made)
        except Exception as error:
            self.logger.error(f"Error calling reward function {func.__name__}: {error}")
            return 0.0


class JudgeRubric(Rubric):
    """Asks a judge."""


class MultiTurnEnv:
    """A conversation."""

    def __init__(self, rows: Any, rubric: Any, max_turns: int = -1, tools: Any = ()) -> None:
        self.rows, self.rubric, self.max_turns = rows, rubric, max_turns
        self.tools = {tool.__name__: tool for tool in tools}
        schema = {"type": "object", "properties": {"x": {"type": "integer"}}}
        self.tool_defs = [types.Tool(name=name, description="It.", parameters=schema) for name in self.tools]

    def build_dataset(self) -> Any:
        """Nothing to train on."""
        return None

    def build_eval_dataset(self) -> Any:
        """The rows."""
        return self.rows

    async def setup_state(self, state: Any) -> None:
        """Make a world."""

    async def env_response(self, messages: Any, state: Any) -> Any:
        """Run each call of the last message."""
        answers = []
        for call in messages[-1].tool_calls or ():
            try:
                said = str(self.tools[call.name](state, **json.loads(call.arguments)))
            except Exception as error:
                said = str(error)
            answers.append(types.Message(role="tool", content=said, tool_call_id=call.id))
        return answers

    def is_done(self, state: Any) -> bool:
        """Whether the last message makes no calls."""
        steps = state["trajectory"]
        return bool(self.tools and steps and not steps[-1]["completion"][-1].tool_calls)

    async def get_prompt_messages(self, state: Any) -> Any:
        """All that was said, and what the environment answers."""
        if not state["trajectory"]:
            return state["prompt"]
        last = state["trajectory"][-1]
        messages = [*last["prompt"], *last["completion"]]
        return [*messages, *await self.env_response(messages, state)]

    async def rollout(self, input: Any, client: Any, model: str, sampling_args: Any) -> Any:
        """The loop."""
        prompt = [types.Message(**message) for message in input["prompt"]]
        state: Any = {"input": input, "prompt": prompt, "trajectory": [], "error": None, "reward": None}
        try:
            await self.setup_state(state)
            while not self._is_completed(state):
                asked = await self.get_prompt_messages(state)
                response = await client.get_response(asked, model, {}, tools=self.tool_defs, state=state)
                message = types.AssistantMessage(**vars(response.message))
                state["trajectory"].append({"prompt": asked, "completion": [message]})
        except Error as error:
            state["error"] = error
        steps = state["trajectory"]
        whole = [*steps[-1]["prompt"], *steps[-1]["completion"]] if steps else []
        state["completion"] = whole[len(prompt) :]
        return state

    def _is_completed(self, state: Any) -> bool:
        most = 0 < self.max_turns <= len(state["trajectory"])
        state["stop_condition"] = "max_turns_reached" if most else "done"
        return most or self.is_done(state)


class EnvGroup:
    """Several environments."""

    def __init__(self, envs: Any) -> None:
        self.envs = envs


def load_environment(module: str, **args: Any) -> Any:
    """The environment of a module."""
    return importlib.import_module(module).load_environment(**args)
