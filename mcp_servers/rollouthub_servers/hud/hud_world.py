"""HUD's environments, loaded in the foreign process: their tasks, and episodes of them."""

# Its library is installed in the foreign environment alone, and has no types.
# pyright: basic, reportMissingImports=false

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from hud.capabilities.mcp import MCPClient
from hud.environment.env import Environment
from hud.environment.server import TaskRunner
from hud.eval.task import Task
from hud.eval.taskset import Taskset
from hud.utils.modules import iter_modules

from rollouthub_servers.foreign.serving import Refused

OVER = "The episode is over."
_REFUSED = ("runtime_config", "verifier", "agent_config")
"""Fields of a task that ask for what is not given here."""
_START = ("prompt",)


def load_all(given: "dict[str, Any]") -> "dict[str, LoadedHud]":
    """Every environment of a source, with the tasks that its code and its files have for it."""
    code = Path(given["code"])
    envs: dict[str, Environment] = {}
    tasks: list[Task] = []
    for module in iter_modules(code / given["source"]):
        for value in vars(module).values():
            if isinstance(value, Environment):
                if envs.setdefault(value.name, value) is not value:
                    raise ValueError(f"two environments are called {value.name!r}")
            elif isinstance(value, Task):
                tasks.append(value)
            elif isinstance(value, list | tuple | Taskset):
                tasks += [each for each in value if isinstance(each, Task)]
    for name in given["rows"]:
        tasks += list(Taskset.from_file(code / name))
    return {name: LoadedHud(env, _rows(env, tasks)) for name, env in envs.items()}


def _rows(env: Environment, tasks: "list[Task]") -> "list[dict[str, Any]]":
    """The tasks of an environment, each once; of a template without any, the task of its defaults, if it has them."""
    rows = {task.slug: task.model_dump(mode="json", exclude_none=True) for task in tasks if task.env == env.name}
    named = {row["id"] for row in rows.values()}
    for name, template in env.tasks.items():
        if name not in named and not _args(template).get("required"):
            rows[name] = {"env": env.name, "id": name, "args": {}, "slug": name}
    return list(rows.values())


def _args(template: Any) -> "dict[str, Any]":
    return template.manifest_entry()["args"]


class LoadedHud:
    """One environment, and its tasks."""

    def __init__(self, env: Environment, rows: "list[dict[str, Any]]") -> None:
        self.env, self.rows_of = env, rows

    def describe(self) -> "dict[str, Any]":
        """What it is, and why it cannot be played."""
        reasons: list[str] = []
        tools: list[str] = []
        if not self.rows_of:
            reasons.append("it has no tasks, nor templates that need no arguments")
        playable = [row for row in self.rows_of if _unplayable(self.env, row) is None]
        if self.rows_of and not playable:
            reasons.append(str(_unplayable(self.env, self.rows_of[0])))
        if playable:
            rollout = self.rollout()
            try:
                tools = [tool["name"] for tool in rollout.begin(playable[0])["tools"]]
                rollout.answer({"content": ""})
                rollout.score([])
            except Exception as error:
                reasons.append(f"its first task cannot be played: {type(error).__name__}: {error}"[:400])
            reasons = rollout.reasons or reasons
        return {"reasons": reasons, "count": len(self.rows_of), "templates": sorted(self.env.tasks), "tools": tools}

    def rows(self, start: int, count: int) -> "list[str]":
        """Some tasks as JSON, each with why it cannot be played, if it cannot."""
        found = self.rows_of[start : start + count]
        return [json.dumps({"row": row, "problem": _unplayable(self.env, row)}, default=str) for row in found]

    def rollout(self) -> "HudRollout":
        """One rollout, not begun."""
        return HudRollout(self.env)


def _unplayable(env: Environment, row: "dict[str, Any]") -> "str | None":
    if asked := next((name for name in _REFUSED if row.get(name)), None):
        return f"{asked}: it asks for what is not given here"
    if row["id"] not in env.tasks:
        return f"id: there is no template {row['id']!r}"
    return None


class HudRollout:
    """One task: started, worked on with its tools, graded by what is answered."""

    def __init__(self, env: Environment) -> None:
        self.env = env
        self.reasons: list[str] = []
        """Capabilities that an agent here cannot use."""
        self._loop = asyncio.new_event_loop()
        self._runner: Any = None
        self._clients: dict[str, Any] = {}
        self._tools: list[dict[str, Any]] = []
        self._answer: str | None = None
        self.is_over = False

    def begin(self, row: "dict[str, Any]") -> "dict[str, Any]":
        """Start the environment and the task: its prompt, and the tools of its MCP servers."""
        return self._loop.run_until_complete(self._begin(row))

    async def _begin(self, row: "dict[str, Any]") -> "dict[str, Any]":
        await self.env.start()
        for capability in self.env.capabilities:
            if capability.protocol.partition("/")[0] != "mcp":
                self.reasons.append(f"capability {capability.name!r}: {capability.protocol}, which agents here lack")
        if self.reasons:
            raise RuntimeError(self.reasons[0])
        for capability in self.env.capabilities:
            client = await MCPClient.connect(capability)
            for tool in await client.list_tools():
                if tool.name in self._clients:
                    raise RuntimeError(f"two of its MCP servers have a tool {tool.name!r}")
                self._clients[tool.name] = client
                schema = getattr(tool, "inputSchema", None) or getattr(tool, "input_schema", None) or {}
                described = {"name": tool.name, "description": tool.description or "", "parameters": schema}
                self._tools.append(described)
        self._runner = TaskRunner(self.env.tasks[row["id"]], row.get("args") or {})
        frame = await self._runner.start()
        if more := sorted(set(frame) - set(_START)):
            raise RuntimeError(f"the start frame has {more[0]!r}, which agents here are not given")
        return self._seen([_message(each) for each in _turns(frame["prompt"])])

    def _seen(self, messages: "list[dict[str, Any]]") -> "dict[str, Any]":
        return {"messages": messages, "tools": self._tools, "is_over": self.is_over}

    def call(self, id: str, name: str, arguments: str) -> "dict[str, Any]":
        """Call a tool of one of its MCP servers."""
        if self.is_over:
            raise Refused(OVER)
        if name not in self._clients:
            raise Refused(f"unknown tool {name!r}")
        result, failed = None, ""
        try:
            result = self._loop.run_until_complete(self._clients[name].call_tool(name, json.loads(arguments)))
        except Exception as error:  # of a server that the environment runs here: no service is missing
            failed = f"the server of {name!r} failed: {type(error).__name__}: {error}"
        if result is None:
            raise RuntimeError(failed)
        parts = [_part(block) for block in result.model_dump(mode="json")["content"]]
        if getattr(result, "isError", False) or getattr(result, "is_error", False):
            raise Refused("\n".join(part.get("text", "") for part in parts) or "the tool failed")
        return self._seen([{"role": "tool", "content": parts, "tool_call_id": id}])

    def answer(self, message: "dict[str, Any]") -> "dict[str, Any]":
        """The answer, after which there is nothing to do."""
        if self.is_over:
            raise Refused(OVER)
        self._answer, self.is_over = message.get("content") or "", True
        return self._seen([])

    def replay(self, row: "dict[str, Any]", said: "list[dict[str, Any]]") -> None:
        """Play a whole transcript."""
        self.begin(row)
        for message in said:
            for call in message.get("tool_calls") or ():
                with suppress(Refused):  # as it was then
                    self.call(**call)
            if not message.get("tool_calls"):
                self.answer(message)
                return

    def score(self, said: "list[dict[str, Any]]") -> "dict[str, Any]":
        """Have it graded by the last words."""
        if self._answer is None:
            self._answer = next((each["content"] for each in reversed(said) if each.get("content")), "")
        return self._loop.run_until_complete(self._runner.grade({"answer": self._answer}))


def _turns(prompt: Any) -> "list[Any]":
    return prompt if isinstance(prompt, list) else [prompt]


def _message(turn: Any) -> "dict[str, Any]":
    """A turn of a prompt, as the agent may see it."""
    if not isinstance(turn, dict):
        return {"role": "user", "content": "" if turn is None else str(turn)}
    role = "assistant" if turn.get("role") == "assistant" else "user"
    content = turn.get("content")
    if isinstance(content, str):
        return {"role": role, "content": content}
    return {"role": role, "content": [_part(each) for each in (content if isinstance(content, list) else [content])]}


def _part(block: Any) -> "dict[str, str]":
    given = block if isinstance(block, dict) else {"text": str(block)}
    if given.get("type") == "image":
        kind = given.get("mimeType") or given.get("mime_type") or "image/png"
        return {"url": f"data:{kind};base64,{given['data']}"}
    text = given.get("text")
    return {"text": text if isinstance(text, str) else f"[{given.get('type')}]"}
