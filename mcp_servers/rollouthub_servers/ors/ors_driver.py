"""Plays one episode of an ORS server in each session. Runs in the server's own Python, a process for each session.

`describe` lists its environments, `begin` makes a session of one task, `call` is a tool, `score_group` compares what
several samples said. Each goes through the server's own routes. Tasks never leave this process: they hold the answers.
"""

import importlib
import json
import runpy
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rollouthub_servers.foreign.forked_serving import seed_all, serve_forked, stand_in
from rollouthub_servers.foreign.serving import Refused, Session, arguments
from rollouthub_servers.foreign_app.app_driver import bring_files, load_libraries
from rollouthub_servers.foreign_app.asgi_client import AsgiApp, AsgiFailure, HttpAnswer

_MOST_SPLIT = 10_000_000


class _Served(Exception):
    """An exception that carries the application that a program would serve."""

    def __init__(self, app: Any) -> None:
        super().__init__()
        self.app = app


def served_by(file: str) -> Any:
    """Run a program up to the point where it would serve; return the application.

    Raises:
        SystemExit: the program serves no application.
    """
    uvicorn: Any = importlib.import_module("uvicorn")

    def run(app: Any, *_: Any, **__: Any) -> None:
        raise _Served(app)

    uvicorn.run = run
    held, sys.argv = sys.argv, [file]
    try:
        runpy.run_path(file, run_name="__main__")
    except _Served as served:
        return served.app
    finally:
        sys.argv = held
    raise SystemExit(f"{Path(file).name} serves nothing when it is run")


class OrsEpisode:
    """One session of a server, from its creation to the end of the process."""

    def __init__(self, file: str, folder: str) -> None:
        bring_files(folder)
        self.app = AsgiApp(served_by(file))
        self.app.start()
        self.name = ""
        self._headers: dict[str, str] = {}

    def session(self) -> Session:
        """The functions that the hub may call."""
        return {
            "describe": self.describe,
            "begin": self.begin,
            "call": self.call,
            "score_group": self.score_group,
        }

    def describe(self) -> list[dict[str, Any]]:
        """Describe every environment: its splits with their numbers of tasks, and its abilities."""
        found: list[dict[str, Any]] = []
        for name in self._get("/list_environments"):
            try:
                tools = self._get(f"/{name}/tools")
                splits = {each["name"]: self._count(name, each["name"]) for each in self._get(f"/{name}/splits")}
                found.append({"name": name, "splits": splits, "tools": tools["tools"], **_abilities(tools)})
            except AsgiFailure as error:
                found.append({"name": name, "refused": str(error)})
            except (AttributeError, KeyError, TypeError) as error:
                found.append({"name": name, "refused": f"its routes do not answer in the form of ORS: {error!r}"})
        return found

    def begin(self, name: str, split: str, index: int, seed: int) -> dict[str, Any]:
        """Create a session of a task; return its prompt and its tools."""
        seed_all(seed)
        self.name = name
        created = _events(self.app.ask("POST", "/create_session"))
        self._headers = {"x-session-id": created[0][1]}
        self._post("/create", {"env_name": name, "split": split, "index": index})
        blocks = self._get(f"/{name}/prompt")
        answer = self.app.ask("GET", f"/{name}/task_tools", headers=self._headers)
        tools = self._get(f"/{name}/tools") if answer.status == 404 else answer.json()
        return {"blocks": blocks, "tools": tools["tools"], **_abilities(tools)}

    def call(self, name: str, given: dict[str, Any]) -> dict[str, Any]:
        """Call a tool.

        Raises:
            Refused: the server says that the call is none, in words for who made it.
        """
        events = _events(self._asked("POST", f"/{self.name}/call", {"name": name, "input": given}))
        if events[-1][0] == "error":
            return {"broke": events[-1][1]}
        result = _result(events)
        if not result["ok"]:
            raise Refused(str(result["error"]))
        output: dict[str, Any] = result["output"]
        unknown = sorted(set(output) - {"blocks", "metadata", "reward", "finished"})
        if unknown:
            raise AsgiFailure(f"answered with the unknown field {unknown[0]!r}")
        return {"blocks": output["blocks"], "reward": output.get("reward"), "done": bool(output.get("finished"))}

    def score_group(self, candidates: list[dict[str, Any]]) -> list[float]:
        """Return one reward for each candidate, as the server compares them."""
        events = _events(self._asked("POST", f"/{self.name}/score_group", {"candidates": candidates}))
        if events[-1][0] == "error":
            raise AsgiFailure(f"/score_group: {events[-1][1]}")
        return [each["reward"] for each in _result(events)["scores"]]

    def _count(self, name: str, split: str) -> int:
        answer = self._asked("POST", f"/{name}/num_tasks", {"split": split})
        if answer.status == 404:
            return len(self._post(f"/{name}/tasks", {"split": split})["tasks"])
        count = answer.json()["num_tasks"]
        if not isinstance(count, int) or not 0 <= count <= _MOST_SPLIT:
            raise AsgiFailure(f"says that {split!r} has {count!r} tasks")
        return count

    def _asked(self, method: str, path: str, body: Any = None) -> HttpAnswer:
        return self.app.ask(method, path, body, self._headers)

    def _get(self, path: str) -> Any:
        return self._asked("GET", path).json()

    def _post(self, path: str, body: Any) -> Any:
        return self._asked("POST", path, body).json()


def _abilities(tools: Mapping[str, Any]) -> dict[str, Any]:
    return {"terminal": tools.get("terminal_tool"), "groups": bool(tools.get("supports_score_group"))}


def _events(answer: HttpAnswer) -> list[tuple[str, str]]:
    """The events of a stream, in their order, each with its data; there is at least one."""
    if answer.status != 200:
        answer.json()
    found: list[tuple[str, str]] = []
    for part in answer.body.decode().replace("\r\n", "\n").split("\n\n"):
        lines = [line.partition(":") for line in part.split("\n") if line and not line.startswith(":")]
        fields = [(name, value.removeprefix(" ")) for name, _, value in lines]
        data = "\n".join(value for name, value in fields if name == "data")
        if fields:
            found.append((next((value for name, value in fields if name == "event"), "message"), data))
    if not found:
        raise AsgiFailure("its stream has no event")
    return found


def _result(events: list[tuple[str, str]]) -> Any:
    if events[-1][0] != "end":
        raise AsgiFailure("its stream does not end")
    try:
        return json.loads("".join(data for event, data in events if event in ("chunk", "end")))
    except ValueError as error:
        raise AsgiFailure(f"its stream holds no JSON: {str(events[-1])[:200]}") from error


if __name__ == "__main__":
    GIVEN = arguments()
    stand_in(GIVEN["absent"])
    FILE, FOLDER = GIVEN["file"], GIVEN["folder"]
    LOADED = load_libraries(lambda: served_by(FILE), FOLDER, GIVEN["libraries"])
    serve_forked(lambda: {**OrsEpisode(FILE, FOLDER).session(), "libraries": lambda: LOADED})
