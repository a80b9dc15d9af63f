"""Writes the folder of an imported server: a complete declaration, and one example task."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from rollouthub.environment import EnvironmentConfig
from rollouthub.errors import ConfigError, HubError
from rollouthub.event_loop import run_async
from rollouthub.plugins.env_toml import FILE_NAME
from rollouthub.plugins.importers import Identity
from rollouthub.plugins.manifest import load_manifest, parse_manifest
from rollouthub_servers.mcp_server import adapt
from rollouthub_servers.mcp_server.mcp_import.imported_server import Said
from rollouthub_servers.mcp_server.server_environment import McpServer
from rollouthub_servers.new_folder import new_folder

_VERIFY = '''"""The verifier: one JSON object on stdin, one JSON score on stdout. Make it score your tasks."""

import json
import sys

asked = json.load(sys.stdin)
wanted = str(asked["task"]["answer"]).strip()
said = asked["submission"]["final"].strip()  # what was given to `submit`, or said last
# asked["workdir"] is {workdir}.
right = said.casefold() == wanted.casefold()
score = {{"reward": float(right), "passed": right, "feedback": f"wanted {{wanted!r:.200}}, got {{said!r:.200}}"}}
sys.stdout.write(json.dumps(score))
'''
_README = """\
# {name}

An MCP server as an environment: its tools are {tools}.

To do, before others can use it:

{left}

```bash
{first}hub run {itself} -a null                       # does it start? nobody does anything: 0.000
hub run {itself} -a oracle                     # the `reference` of each task plays: 1.000 if all is well
hub check {itself}                             # may it be published?
hub publish . --registry REGISTRY       # others: hub install {name}
```
"""


@dataclass(frozen=True)
class Imported:
    """The result of an import."""

    folder: Path
    name: str
    tools: tuple[str, ...]
    """The tools' names on the server."""
    left: tuple[str, ...]
    """What the user must still do."""
    remarks: tuple[str, ...]
    is_apart: bool
    """Whether the environment needs its own interpreter."""

    @property
    def commands(self) -> tuple[str, ...]:
        """Commands to try next."""
        shown = str(self.folder)
        place = shown if self.folder.is_absolute() or shown.startswith(".") else f"./{shown}"
        first = (f"hub install {place}",) if self.is_apart else ()
        played = self.name if self.is_apart else shown
        return (*first, f"hub run {played} -a null", f"hub check {played}", f"hub publish {shown}")


def import_server(server: Said, out: Path, identity: Identity, python: str) -> Imported:
    """Start the server once, or connect to it, and write an environment around it; on failure nothing is written.

    `python` replaces `{python}` for that start. Blocks for as long as the server takes to start.

    Raises:
        ConfigError: the folder exists already, a name is invalid, or the server does not start.
    """
    name = identity.name or f"local/{_word(out.resolve().name)}"
    with new_folder(out) as partial:
        for file in server.copied:
            shutil.copy(file, partial / file.name)
        (partial / "verify.py").write_text(_verify(server), encoding="utf-8")
        _write(partial, server, name, identity, ())
        try:
            tools = run_async(_tools_of, partial / FILE_NAME, python)
        except HubError as error:
            raise ConfigError(str(error).replace(str(partial), str(out))) from error
        left = _left(identity)
        _write(partial, server, name, identity, tools)
        shown = ", ".join(f"`{tool}`" for tool in tools) or "none"
        steps = "\n".join(f"- {step}" for step in (*left, *server.remarks))
        is_apart = bool(server.server.get("requirements"))
        readme = _README.format(
            name=name,
            tools=shown,
            left=steps,
            first="hub install .                           # with what it needs, in an interpreter of its own\n"
            if is_apart
            else "",
            itself=name if is_apart else ".",
        )
        (partial / "README.md").write_text(readme, encoding="utf-8")
    return Imported(out, name, tuple(tools), left, server.remarks, is_apart)


async def _tools_of(file: Path, python: str) -> list[str]:
    """The names of the offered tools, as the server has them."""
    environment = adapt(load_manifest(file), file, python)
    assert issubclass(environment, McpServer)
    await environment.prepare(EnvironmentConfig())
    assert environment.pinned is not None
    return [tool.server_name for tool in environment.pinned.offered.values()]


def _left(identity: Identity) -> tuple[str, ...]:
    tasks = "write your tasks into tasks.jsonl, a line each; the one that is there shows how"
    verify = "make verify.py score them; it compares an answer with `answer`"
    if identity.license is not None:
        return (tasks, verify)
    return (tasks, verify, "say in env.toml under which licence others may use it (`license`)")


def _write(folder: Path, server: Said, name: str, identity: Identity, tools: Sequence[str]) -> None:
    text = _manifest(server, name, identity, tools)
    parse_manifest(text.encode(), FILE_NAME)
    (folder / FILE_NAME).write_text(text, encoding="utf-8")
    (folder / "tasks.jsonl").write_text(json.dumps(_task(tools), ensure_ascii=False) + "\n", encoding="utf-8")


def _manifest(server: Said, name: str, identity: Identity, tools: Sequence[str]) -> str:
    source = server.source
    manifest: dict[str, Any] = {
        "name": name,
        "version": "0.1.0",
        "description": f"Tasks for an MCP server: {source}." if source else "Tasks for an MCP server.",
        **({"license": identity.license} if identity.license is not None else {}),
        "submit": True,
        "server": {**server.server, **({"tools": list(tools)} if tools else {})},
        "tasks": {"test": "tasks.jsonl"},
        "verifier": {"command": ["{python}", "verify.py"]},
        "limits": {"max_turns": 20},
        "reward": {"range": [0, 1], "better": "higher"},
        **({"adopted_from": {"source": source[:400], "changes": "Tasks and a verifier."}} if source else {}),
    }
    head = "# What the environment is, for hubs and registries; every key is in docs/manifest.md of the hub.\n"
    missing = "" if identity.license is not None else '# license = "MIT"  # yours to say; publishing asks for it\n'
    return head + missing + tomli_w.dumps(manifest)


def _task(tools: Sequence[str]) -> dict[str, Any]:
    """An example task: valid, but with placeholders instead of a problem."""
    return {
        "id": "first",
        "prompt": f"TODO: ask for something that needs {', '.join(tools) or 'the tools'}, and has one short answer.",
        "answer": "TODO: the answer, which verify.py compares",
        # It does not win, so that the pattern itself does not pass `hub check`.
        "reference": ['TODO: what the oracle says, or calls: {"name": "TOOL", "arguments": {}}'],
    }


def _verify(server: Said) -> str:
    if "url" in server.server:
        return _VERIFY.format(workdir="null: the server runs elsewhere; ask it, or its database, what was done")
    return _VERIFY.format(workdir="a copy of the scratch folder, as the server left it: look there at what was done")


def _word(name: str) -> str:
    kept = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in name.lower())
    return "-".join(part for part in kept.split("-") if part) or "server"
