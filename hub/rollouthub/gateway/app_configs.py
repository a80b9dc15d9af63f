"""Ready-to-paste configurations for apps that start MCP servers, in the format of each app."""

import json
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import tomli_w

STARTING_SECONDS = 60
"""Seconds that an app is told to wait for the server's start-up; apps that have such a setting give up after five or
ten by default.
"""
CALL_SECONDS = 600


class App(StrEnum):
    """The apps whose configuration format is known."""

    CLAUDE = "claude"
    CLAUDE_CODE = "claude-code"
    CURSOR = "cursor"
    CODEX = "codex"
    VSCODE = "vscode"
    OPENCODE = "opencode"
    INSPECTOR = "inspector"


@dataclass(frozen=True)
class AppConfig:
    """A configuration text, and where to put it."""

    text: str
    place: str
    """Where the configuration goes, as a hint for the user."""


def app_config(app: App, name: str, command: Sequence[str]) -> AppConfig:
    """The configuration by which an app starts the command as an MCP server with this name."""
    return _FORMS[app](name, list(command))


def _claude(name: str, command: list[str]) -> AppConfig:
    return AppConfig(
        _json({"mcpServers": {name: _started(command)}}),
        "Claude Desktop: claude_desktop_config.json (Settings, Developer, Edit Config); "
        "in ~/Library/Application Support/Claude/ or %APPDATA%\\Claude\\",
    )


def _claude_code(name: str, command: list[str]) -> AppConfig:
    line = ["claude", "mcp", "add", "--transport", "stdio", name, "--", *command]
    return AppConfig(shlex.join(line), "Claude Code: run this in the project's folder (--scope user for all of them)")


def _cursor(name: str, command: list[str]) -> AppConfig:
    form = {"mcpServers": {name: {"type": "stdio", **_started(command)}}}
    return AppConfig(_json(form), "Cursor: ~/.cursor/mcp.json, or .cursor/mcp.json in a project")


def _codex(name: str, command: list[str]) -> AppConfig:
    times = {"startup_timeout_sec": STARTING_SECONDS, "tool_timeout_sec": CALL_SECONDS}
    form = {"mcp_servers": {name: {**_started(command), **times}}}
    return AppConfig(tomli_w.dumps(form).rstrip(), "Codex: ~/.codex/config.toml")


def _vscode(name: str, command: list[str]) -> AppConfig:
    form = {"servers": {name: {"type": "stdio", **_started(command)}}}
    return AppConfig(_json(form), "VS Code: .vscode/mcp.json in a project, or `MCP: Open User Configuration`")


def _opencode(name: str, command: list[str]) -> AppConfig:
    server = {"type": "local", "command": command, "enabled": True, "timeout": STARTING_SECONDS * 1000}
    form = {"$schema": "https://opencode.ai/config.json", "mcp": {name: server}}
    return AppConfig(_json(form), "opencode: opencode.json in a project, or ~/.config/opencode/opencode.json")


def _inspector(name: str, command: list[str]) -> AppConfig:
    form = {"mcpServers": {name: {"type": "stdio", **_started(command)}}}
    return AppConfig(
        _json(form),
        f"MCP Inspector: mcp.json, then npx @modelcontextprotocol/inspector --config mcp.json --server {name}",
    )


def _started(command: list[str]) -> dict[str, object]:
    return {"command": command[0], "args": command[1:]}


def _json(form: object) -> str:
    return json.dumps(form, indent=2, ensure_ascii=False)


_FORMS: dict[App, Callable[[str, list[str]], AppConfig]] = {
    App.CLAUDE: _claude,
    App.CLAUDE_CODE: _claude_code,
    App.CURSOR: _cursor,
    App.CODEX: _codex,
    App.VSCODE: _vscode,
    App.OPENCODE: _opencode,
    App.INSPECTOR: _inspector,
}
