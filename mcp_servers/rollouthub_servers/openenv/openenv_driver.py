"""Plays one episode of an OpenEnv environment in each session. Runs in the environment's own Python, a process each.

`describe` says what it takes and shows, `reset` begins, `step` acts, `tools` and `call` are its MCP mode. Each goes
through the application's own routes: `/ws`, one connection an episode, or `/reset` and `/step` where it has its own.
"""

import inspect
import os
from collections.abc import Mapping
from typing import Any, cast

from rollouthub_servers.foreign.forked_serving import seed_all, serve_forked, stand_in
from rollouthub_servers.foreign.serving import Refused, Session, arguments
from rollouthub_servers.foreign_app.app_driver import bring_files, imported_app, load_libraries
from rollouthub_servers.foreign_app.asgi_client import AppSocket, AsgiApp, AsgiFailure

_SHOWN_PROBLEMS = 1_000
_CORE = ("openenv.", "openenv_core.")
LISTING = {"type": {"type": "list_tools"}, "action_type": {"action_type": "ListToolsAction"}}
CALLING = {"type": {"type": "call_tool"}, "action_type": {"action_type": "ToolCallAction"}}
"""How each of the two known forms of MCP mode lists and calls tools."""


class OpenEnvEpisode:
    """One environment, from its reset to the end of the process."""

    def __init__(self, package: str, app_path: str, folder: str, headers: Mapping[str, str]) -> None:
        bring_files(folder)
        app = imported_app(package, app_path)
        self.app = AsgiApp(app)
        self.app.start()
        self.routes: dict[str, Any] = {
            route.path: getattr(route, "endpoint", None)
            for route in getattr(app, "routes", ())
            if isinstance(getattr(route, "path", None), str)
        }
        self.server = _server_behind(self.routes)
        self.headers = headers
        self.socket: AppSocket | None = None
        self._mcp: str | None = None

    def session(self) -> Session:
        """The functions that the hub may call."""
        return {
            "describe": self.describe,
            "reset": self.reset,
            "step": self.step,
            "tools": self.tools,
            "call": self.call,
        }

    def describe(self) -> dict[str, Any]:
        """Describe the environment: its routes, the arguments of `reset`, and the schemas of actions and
        observations.
        """
        if not self._speaks_ws and not self._has_own("/reset"):
            return {"refused": "it has neither /ws nor a /reset of its own"}
        schemas = self._schemas()
        metadata = self._metadata()
        action_class = getattr(self.server, "action_cls", None)
        return {
            "line": "ws" if self._speaks_ws else "http",
            "resets": self._reset_parameters(),
            "action": schemas.get("action", {}),
            "observation": sorted(schemas.get("observation", {}).get("properties", {})),
            "mcp": _mcp_form(schemas.get("action", {})),
            "title": str(metadata.get("name", "")),
            "about": str(metadata.get("description", "")),
            "actions": inspect.getdoc(action_class) or "" if action_class is not None else "",
        }

    def reset(self, seed: int, given: dict[str, Any]) -> dict[str, Any]:
        """Reset the environment.

        Raises:
            Refused: it does not accept the arguments.
        """
        taken = self._reset_parameters()
        if taken is not None and (unknown := [name for name in given if name not in taken]):
            raise Refused(f"reset takes no {', '.join(unknown)}; it takes {', '.join(taken) or 'nothing'}")
        data = {**({"seed": seed} if taken is None or "seed" in taken else {}), **given}
        seed_all(seed)
        if self._has_own("/reset"):
            first = self.app.ask("POST", "/reset", {"seed": seed, **given}, self.headers).json()
            if not self._speaks_ws:
                return _result(first)
        self.socket = self.app.connect("/ws")
        seed_all(seed)
        answer = self.socket.ask({"type": "reset", "data": data})
        if answer.get("type") == "error":
            raise AsgiFailure(f"reset: {_problem(answer)}")
        return _result(answer["data"])

    def step(self, action: dict[str, Any]) -> dict[str, Any]:
        """Perform an action.

        Raises:
            Refused: the environment does not accept the action.
        """
        if self.socket is None:
            return _result(self.app.ask("POST", "/step", {"action": action}, self.headers).json())
        answer = self.socket.ask({"type": "step", "data": action})
        if answer.get("type") == "error":
            if answer["data"].get("code") == "VALIDATION_ERROR":
                raise Refused(f"that is no action of it: {_problem(answer)}")
            return {"broke": _problem(answer)}
        return _result(answer["data"])

    def tools(self, form: str) -> list[dict[str, Any]]:
        """The tools of its MCP mode."""
        self._mcp = form
        found = self.step(LISTING[form])
        observation: dict[str, Any] = found.get("observation", {})
        return observation.get("tools") or observation.get("tools_list") or []

    def call(self, name: str, given: dict[str, Any]) -> dict[str, Any]:
        """Call a tool of its MCP mode."""
        assert self._mcp is not None, "its tools were listed"
        return self.step({**CALLING[self._mcp], "tool_name": name, "arguments": given})

    @property
    def _speaks_ws(self) -> bool:
        return "/ws" in self.routes

    def _has_own(self, path: str) -> bool:
        """Whether a route was written by the environment, and not by OpenEnv: it may keep one world for all."""
        endpoint = self.routes.get(path)
        return endpoint is not None and not str(endpoint.__module__).startswith(_CORE)

    def _reset_parameters(self) -> list[str] | None:
        """Names of the arguments that `reset` takes; None where that is unknown, or it takes any."""
        factory = getattr(self.server, "_env_factory", None)
        if factory is None or not self._speaks_ws:
            return None
        kind: Any = factory if isinstance(factory, type) else type(factory())
        own: Any = getattr(kind, "reset_async", None)
        is_own = own is not None and not str(own.__module__).startswith(_CORE)
        parameters = inspect.signature(cast("Any", own if is_own else kind.reset)).parameters
        if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values()):
            return None
        return [name for name in parameters if name != "self"]

    def _schemas(self) -> dict[str, Any]:
        if "/schema" in self.routes:
            return self.app.ask("GET", "/schema").json()
        found: dict[str, Any] = {}
        for name in ("action", "observation"):
            model: Any = getattr(self.server, f"{name}_cls", None)
            found[name] = {} if model is None else model.model_json_schema()
        return found

    def _metadata(self) -> dict[str, Any]:
        if "/metadata" not in self.routes:
            return {}
        answer = self.app.ask("GET", "/metadata")
        return answer.json() if answer.status == 200 else {}


def _server_behind(routes: Mapping[str, Any]) -> Any:
    """OpenEnv's `HTTPEnvServer`, which its routes are closures of; None where there is none."""
    for path in ("/ws", "/step", "/reset", "/schema"):
        for cell in getattr(routes.get(path), "__closure__", None) or ():
            if hasattr(cell.cell_contents, "_env_factory"):
                return cell.cell_contents
    return None


def _mcp_form(action: Mapping[str, Any]) -> str | None:
    """Which of the two forms of MCP mode an action's schema belongs to; None where neither."""
    properties = action.get("properties", {})
    if properties.get("type", {}).get("const") in ("call_tool", "list_tools") or set(properties) == {"metadata"}:
        return "type"
    return "action_type" if "ToolCallAction" in properties.get("action_type", {}).get("enum", ()) else None


def _result(data: Mapping[str, Any]) -> dict[str, Any]:
    return {"observation": data["observation"], "reward": data.get("reward"), "done": bool(data.get("done"))}


def _problem(answer: Mapping[str, Any]) -> str:
    data = answer.get("data", {})
    errors = data.get("errors") or ()
    parts = [f"{'.'.join(map(str, each.get('loc', ())))}: {each.get('msg')}" for each in errors]
    return ("; ".join(parts) or str(data.get("message", "")))[:_SHOWN_PROBLEMS]


if __name__ == "__main__":
    GIVEN = arguments()
    os.environ["ENABLE_WEB_INTERFACE"] = "false"
    stand_in(GIVEN["absent"])
    WHERE = (GIVEN["package"], GIVEN["app"], GIVEN["folder"])
    LOADED = load_libraries(lambda: imported_app(*WHERE[:2]), WHERE[2], GIVEN["libraries"])
    serve_forked(lambda: {**OpenEnvEpisode(*WHERE, GIVEN["headers"]).session(), "libraries": lambda: LOADED})
