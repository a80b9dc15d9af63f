"""Small environments to publish: a server in plain Python, and what goes wrong with it."""

from collections.abc import Mapping
from pathlib import Path

from rollouthub_registry.check.check_request import CheckRequest
from rollouthub_sandboxes.process.walled_program import namespaces_problem

QUICK = CheckRequest(limit=1, only=("tasks", "null"), wall="bubblewrap" if namespaces_problem() is None else "auto")
"""Two checks of thirteen, behind the wall that is up soonest: what is found, and walls, are other tests' matter."""

MANIFEST = """\
name = "lab/words"
version = "1.0.0"
description = "Say a word."
license = "MIT"
secrets = ["WORDS_PASSPORT"]

[server]
command = ["{python}", "{folder}/server.py"]

[tasks]
test = "tasks.jsonl"

[verifier]
command = ["{python}", "verify.py"]
"""
SERVER = """\
import json, os, sys, time

TOOLS = [{"name": "say", "description": "Say a word.", "inputSchema": {"type": "object"}}]
for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    result = {}
    if request["method"] == "initialize":
        info = {"name": "words", "version": "1"}
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
    elif request["method"] == "tools/list":
        result = {"tools": TOOLS}
    elif request["method"] == "tools/call":
        result = {"content": [{"type": "text", "text": "word"}]}
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
"""
VERIFY = """\
import json, sys

given = json.load(sys.stdin)
print(json.dumps({"reward": 0.0, "passed": False}))
"""
FILES = {
    "env.toml": MANIFEST,
    "server.py": SERVER,
    "verify.py": VERIFY,
    "tasks.jsonl": '{"prompt": "Say a word.", "answer": "the-secret-word"}\n',
}


def write_environment(folder: Path, changes: Mapping[str, str] | None = None) -> Path:
    """A folder that can be published, but for the changes."""
    for path, text in {**FILES, **(changes or {})}.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder
