"""Plays episodes of an OpenEnv environment by OpenEnv's own client and server, as its documentation writes the loop.

    python openenv_own.py ROOT RECORD.json '[[RESET, SEED], …]' MOST_STEPS

Runs in the environment's virtual environment, in a folder that holds its files, and imports nothing of the hub. ROOT is
the folder of its package. Prints a JSON line for each episode: the actions of a scripted policy, what was seen first,
and the rewards.
"""

import importlib
import json
import os
import random
import sys
import threading
import time
from pathlib import Path
from typing import Any

PORT = int(os.environ.get("PORT", "18723"))
BASE = f"http://127.0.0.1:{PORT}"
WORDS = ("4", "yes", "hello there", "[0]", "12")
LISTING: dict[str, dict[str, Any]] = {
    "type": {"type": "list_tools"},
    "action_type": {"action_type": "ListToolsAction"},
}
CALLING: dict[str, dict[str, Any]] = {
    "type": {"type": "call_tool"},
    "action_type": {"action_type": "ToolCallAction"},
}


def value_of(schema: dict[str, Any], root: dict[str, Any], rng: random.Random) -> Any:
    """Something that a schema takes."""
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    if "enum" in schema:
        return rng.choice(schema["enum"])
    kind = schema.get("type")
    if kind == "integer":
        return rng.randint(schema.get("minimum", 0), schema.get("maximum", schema.get("minimum", 0) + 2))
    plain: dict[str, Any] = {"number": 0.5, "boolean": True, "array": [], "object": {}}
    return plain.get(str(kind), rng.choice(WORDS))


def action_of(record: dict[str, Any], observation: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """An action: one that the observation calls legal, or what its schema takes."""
    schema = record["action"]
    names = [name for name in schema["properties"] if name not in ("metadata", "type")]
    legal = next((each for name, each in observation.items() if name.startswith("legal_") and each), None)
    if legal and len(names) == 1:
        return {names[0]: rng.choice(legal)}
    wanted = [name for name in names if name in schema.get("required", names)]
    return {name: value_of(schema["properties"][name], schema, rng) for name in wanted}


def call_of(tools: list[dict[str, Any]], rng: random.Random) -> tuple[str, dict[str, Any]]:
    """A call of one of the tools with what it requires."""
    tool = rng.choice(tools)
    schema: dict[str, Any] = tool.get("input_schema") or tool.get("inputSchema") or {}
    given: dict[str, Any] = {
        name: value_of(schema["properties"][name], schema, rng) for name in schema.get("required", ())
    }
    return tool["name"], given


class HttpLoop:
    """A server with routes of its own, asked as its own client does."""

    def __init__(self, headers: dict[str, str]) -> None:
        self.client = importlib.import_module("httpx").Client(base_url=BASE, headers=headers, timeout=60)

    def reset(self, **given: Any) -> Any:
        """Begin."""
        return self.client.post("/reset", json=given).json()

    def step(self, action: dict[str, Any]) -> Any:
        """Act."""
        return self.client.post("/step", json={"action": action}).json()

    def close(self) -> None:
        """End."""
        self.client.close()


class WsLoop:
    """OpenEnv's generic client."""

    def __init__(self) -> None:
        core: Any = importlib.import_module("openenv.core")
        client = core.GenericEnvClient(base_url=BASE)
        self.client = client.sync() if hasattr(client, "sync") else client
        self.client.connect()

    def reset(self, **given: Any) -> Any:
        """Begin."""
        return _told(self.client.reset(**given))

    def close(self) -> None:
        """Let the next one in: the server holds one connection at a time."""
        self.client.close()

    def step(self, action: dict[str, Any]) -> Any:
        """Act."""
        return _told(self.client.step(action))


def _told(result: Any) -> dict[str, Any]:
    return {"observation": result.observation, "reward": result.reward, "done": result.done}


def begun(record: dict[str, Any], given: dict[str, Any], seed: int) -> tuple[Any, dict[str, Any]]:
    """A connection and its reset, once the one before is let go."""
    for _ in range(200):
        loop = HttpLoop(record["headers"]) if record["line"] == "http" else WsLoop()
        random.seed(seed)
        if (numpy := sys.modules.get("numpy")) is not None:
            numpy.random.seed(seed)
        try:
            return loop, loop.reset(seed=seed, **given)
        except Exception as error:
            if "CAPACITY" not in str(error) and "ConnectionClosed" not in type(error).__name__:
                raise
            time.sleep(0.02)
    raise TimeoutError("the server does not let the connection before go")


def play(record: dict[str, Any], given: dict[str, Any], seed: int, most: int) -> dict[str, Any]:
    """One episode."""
    rng, form = random.Random(f"{given}/{seed}"), record["mcp"]
    loop, came = begun(record, given, seed)
    opening, actions, rewards = came["observation"], list[Any](), list[Any]()
    tools: list[dict[str, Any]] = []
    if form is not None:
        listed = loop.step(LISTING[form])["observation"]
        tools = listed.get("tools") or listed.get("tools_list") or []
    while not came["done"] and len(actions) < most:
        if form is None:
            action = action_of(record, came["observation"], rng)
            actions.append(["step", action])
        else:
            name, arguments = call_of(tools, rng)
            actions.append([name, arguments])
            action = {**CALLING[form], "tool_name": name, "arguments": arguments}
        came = loop.step(action)
        rewards.append(came["reward"])
    loop.close()
    return {"opening": opening, "actions": actions, "rewards": rewards, "done": bool(came["done"])}


def main() -> None:
    """Serve, play, print."""
    root, record = Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text())
    episodes, most = json.loads(sys.argv[3]), int(sys.argv[4])
    out = os.dup(1)
    os.dup2(2, 1)  # environments print
    os.environ.update(record["variables"])
    for absent in record["absent"]:
        sys.modules[absent] = type(sys)(absent)
        sys.modules[absent].__getattr__ = _missing  # type: ignore[method-assign]
    sys.path[:0] = [str(root.parent), str(root)]
    module, _, name = record["app"].partition(":")
    try:
        app = getattr(importlib.import_module(f"{record['name']}.{module}"), name)
    except ImportError:
        app = getattr(importlib.import_module(module), name)
    uvicorn: Any = importlib.import_module("uvicorn")
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=PORT, log_level="warning"))
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        time.sleep(0.01)
    with os.fdopen(out, "w") as stream:
        for given, seed in episodes:
            began = time.process_time()
            try:
                line = play(record, given, seed, most)
            except Exception as error:
                line = {"failed": f"{type(error).__name__}: {str(error)[:200]}"}
            line |= {"reset": given, "seed": seed, "cpu": time.process_time() - began}
            stream.write(json.dumps(line) + "\n")
            stream.flush()
    os._exit(0)


def _missing(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise ImportError(name)


if __name__ == "__main__":
    main()
