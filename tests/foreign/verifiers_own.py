"""The library's own rewards for messages that were said elsewhere: runs in an environment's virtual environment, alone.

`python verifiers_own.py JOB`: JOB is JSON with `module`, `args`, `path`, `datasets`, `judge` and `episodes`, each a row
and the messages of its agent. Prints a line of JSON: what each earns, and the CPU seconds that took.
"""

# Its library is installed in the foreign environment alone, and has no types.
# pyright: basic, reportMissingImports=false

import asyncio
import importlib
import json
import os
import random
import sys
import time
import types
from pathlib import Path
from typing import Any


def main() -> None:
    """Play the job's episodes by the library's own loop."""
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    sys.path[:0] = job["path"]
    if job["judge"] == "none":
        os.environ["OPENAI_API_KEY"] = "none"
    random.seed(0)
    if job["kind"] == "v1":
        sys.stdout.write(json.dumps(asyncio.run(_scored(job))) + "\n")
        return
    for name in job["absent"]:
        sys.modules[name] = types.ModuleType(name)
    vf: Any = importlib.import_module("verifiers")
    if job["datasets"]:
        datasets: Any = importlib.import_module("datasets")
        own = datasets.load_dataset

        def load_dataset(path: str, *args: Any, **named: Any) -> Any:
            return own(job["datasets"].get(path, path), *args, **named)

        datasets.load_dataset = load_dataset
        loaded: list[Any] = [module for name, module in sys.modules.items() if name.startswith("verifiers")]
        for module in loaded:
            if getattr(module, "load_dataset", None) is own:
                module.load_dataset = load_dataset
    env = vf.load_environment(job["module"], **job["args"])
    found = []
    for episode in job["episodes"]:
        began = time.process_time()
        state = asyncio.run(_played(vf, env, episode))
        found.append({"reward": state["reward"], "metrics": state["metrics"], "cpu": time.process_time() - began})
    sys.stdout.write(json.dumps(found) + "\n")


async def _scored(job: Any) -> Any:
    """What the library's `Task.score` gives for conversations, with no rollout of its own."""
    from pydantic import TypeAdapter
    from verifiers.v1 import graph
    from verifiers.v1.configs.agent import AgentConfig
    from verifiers.v1.state import state_cls
    from verifiers.v1.trace import AgentInfo, Trace, TraceTask
    from verifiers.v1.types import Message, Response
    from verifiers.v1.utils.loaders import taskset_class, taskset_config_type

    config = taskset_config_type(job["module"]).model_validate({"id": job["module"], **job["args"]})
    taskset: Any = taskset_class(job["module"])(config)
    kind, read = type(taskset).task_type(), TypeAdapter(Message).validate_python
    found = []
    for episode in job["episodes"]:
        began = time.process_time()
        task = kind(kind.data_type().model_validate(episode["row"]), config.task)
        trace: Any = Trace(
            task=TraceTask(type=kind.__name__, data=task.data),
            state=state_cls(kind)(),
            agent=AgentInfo(config=AgentConfig()),
        )
        heard: list[Any] = []
        for is_said, given in episode["conversation"]:
            fields = {key: value for key, value in given.items() if value}
            message: Any = read({"content": "", **fields})
            if is_said and message.role == "assistant":
                reason = "tool_calls" if message.tool_calls else "stop"
                turn = graph.prepare_turn(trace, heard, [])
                turn.commit(Response(id="x", created=0, model="policy", message=message, finish_reason=reason))
            heard.append(message)
        await task.score(trace)
        scores = {name: each.score for name, each in trace.rewards.items()}
        metrics = {**trace.metrics, **scores}
        found.append({"reward": trace.reward, "metrics": metrics, "cpu": time.process_time() - began})
    return found


async def _played(vf: Any, env: Any, episode: Any) -> Any:
    random.seed(episode["seed"])
    said = iter(episode["said"])

    class Scripted(vf.Client):
        """Says what was said."""

        async def get_response(
            self, prompt: Any, model: str, sampling_args: Any, tools: Any = None, **more: Any
        ) -> Any:
            message = next(said, None)
            if message is None:
                raise vf.OverlongPromptError
            calls = [vf.types.ToolCall(**call) for call in message["tool_calls"]]
            return vf.types.Response(
                id="x",
                created=0,
                model=model,
                message=vf.types.ResponseMessage(
                    content=message["content"] or (None if calls else ""),
                    tool_calls=calls or None,
                    finish_reason="tool_calls" if calls else "stop",
                    is_truncated=False,
                ),
            )

        async def unused(self, *_: Any, **__: Any) -> Any:
            raise NotImplementedError

        def setup_client(self, config: Any) -> Any:
            return config

        to_native_tool = to_native_prompt = get_native_response = unused
        raise_from_native_response = from_native_response = close = unused

    state = await env.rollout(episode["row"], Scripted(object()), "policy", {})
    await env.rubric.score_rollout(state)
    return state


if __name__ == "__main__":
    main()
