"""From two empty homes: one publishes an environment, the other finds, installs, runs and reproduces it."""

import json
import resource
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rollouthub.plugins.lock import read_lock
from rollouthub.store.reader import open_run
from rollouthub_registry.server.atomic_write import open_layout
from rollouthub_registry.server.token_hashes import Tokens
from tests.cli.conftest import HUB
from tests.cli.warm import WarmHub
from tests.ports import free_port
from tests.registry.install_flow.machines import Machine

SECONDS = 10.0
"""Of CPU, from a published environment to an installed one."""

MANIFEST = """\
name = "pantry/jars"
version = "1.2.0"
description = "Fill jars by weight, through a server that knows nothing of the hub."
license = "MIT"
authors = ["A publisher"]
tags = ["kitchen"]
submit = false

[server]
command = ["{python}", "{folder}/server.py", "jars.json"]

[tasks]
test = "tasks.jsonl"

[verifier]
command = ["{python}", "verify.py"]

[limits]
max_turns = 10
"""
SERVER = '''\
"""Jars with contents in grams."""

import json
import sys
from pathlib import Path

FILE = Path(sys.argv[1])
FILL = {
    "name": "fill",
    "description": "Fill a jar with so many grams.",
    "inputSchema": {
        "type": "object",
        "properties": {"jar": {"type": "string"}, "grams": {"type": "integer", "minimum": 0}},
        "required": ["jar", "grams"],
        "additionalProperties": False,
    },
}


def answer(method, params):
    if method == "initialize":
        info = {"name": "jars", "version": "1"}
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": [FILL]}
    if method == "tools/call":
        jars = json.loads(FILE.read_text()) if FILE.exists() else {}
        jars[params["arguments"]["jar"]] = params["arguments"]["grams"]
        FILE.write_text(json.dumps(jars))
        return {"content": [{"type": "text", "text": f"{sum(jars.values())} g in all"}]}
    return None


for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        result = answer(request["method"], request.get("params", {}))
        said = {"result": result} if result is not None else {"error": {"code": -32601, "message": "none"}}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **said}), flush=True)
'''
VERIFY = '''\
"""Whether every jar holds what it should."""

import json
import sys
from pathlib import Path

asked = json.load(sys.stdin)
file = Path(asked["workdir"], "jars.json")
found = json.loads(file.read_text()) if file.is_file() else {}
print(json.dumps({"reward": float(found == asked["task"]["answer"]), "passed": found == asked["task"]["answer"]}))
'''


def write_jars(folder: Path) -> Path:
    """An environment that this project does not ship."""
    folder.mkdir(parents=True)
    (folder / "env.toml").write_text(MANIFEST)
    (folder / "server.py").write_text(SERVER)
    (folder / "verify.py").write_text(VERIFY)
    tasks = [
        {
            "id": f"jar-{number}",
            "prompt": f"Fill the jar {jar!r} with {number * 100} grams.",
            "answer": {jar: number * 100},
            "reference": [{"name": "fill", "arguments": {"jar": jar, "grams": number * 100}}],
        }
        for number, jar in enumerate(("rice", "lentils"), 1)
    ]
    (folder / "tasks.jsonl").write_text("".join(f"{json.dumps(task)}\n" for task in tasks))
    return folder


@contextmanager
def served(machine: Machine, root: Path, at: str) -> Generator[str]:
    """The registry of a folder, over HTTP; its URL."""
    port = at.rpartition(":")[2]
    command = [*HUB, "registry", "serve", str(root), "--port", port, "--json"]
    with subprocess.Popen(
        command, cwd=machine.project, env=machine.variables(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as server:
        assert server.stdout is not None
        try:
            yield json.loads(server.stdout.readline())["url"]
        finally:
            server.terminate()
            server.communicate(timeout=20)


def cpu_seconds() -> float:
    """What the processes took that this one has waited for; a clock would tell how busy the machine is."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def token_for(root: Path, namespace: str) -> str:
    """A token to publish with."""
    return Tokens(open_layout(root).tokens).create(namespace, ("publish",))[1]


def hub(machine: Machine, *words: str, said: str = "") -> str:
    """A command as a user types it, all of its loading included; what it printed."""
    done = subprocess.run(
        [*HUB, *words],
        cwd=machine.project,
        env=machine.variables(),
        input=said,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def played(run: Path) -> list[Any]:
    """What must be the same in two runs of the same bytes, by task: who it was, what was said, what it scored."""
    with open_run(run) as reader:
        found = [
            (
                rollout.task,
                rollout.environment,
                rollout.tools_digest,
                [(turn.messages, turn.response, [call.result for call in turn.tool_calls]) for turn in rollout.turns],
                rollout.score,
            )
            for rollout in reader.rollouts()
        ]
    return sorted(found, key=lambda each: each[0].id)


def test_one_publishes_and_another_installs_runs_and_reproduces(tmp_path: Path, warm: WarmHub) -> None:
    author, reader = Machine(tmp_path / "author", warm), Machine(tmp_path / "reader", warm)
    root = tmp_path / "registry"
    address = f"http://127.0.0.1:{free_port()}"
    with served(author, root, address) as url:
        hub(author, "login", url, "--token-stdin", said=token_for(root, "pantry"))
        folder = write_jars(tmp_path / "jars")
        published = author.hub(
            "publish", str(folder), "--registry", url, "--limit", "1", "--json", "-q", "--quick"
        ).json

        reader.hub("registry", "add", url).went_well()
        assert "pantry/jars" in reader.hub("search", "fill jars").out
        before = cpu_seconds()
        done = json.loads(hub(reader, "install", "pantry/jars", "--json"))["environments"][0]
        seconds = cpu_seconds() - before
        sys.stdout.write(
            f"\ninstalled from a served registry in {seconds:.1f} s of CPU and {done['seconds']:.2f} s of work\n"
        )
        assert (done["source"], done["bundle"]) == (url, published["digest"])
        assert done["key_id"] is not None
        assert done["is_new_key"]
        assert seconds < SECONDS

    run = ("run", "pantry/jars", "-q", "--output")
    reader.hub(*run, "runs/first").went_well()
    lock = reader.project / "runs" / "first" / "hub.lock"
    locked = read_lock(lock).find("pantry/jars")
    assert locked is not None
    assert (locked.bundle, locked.key_id) == (done["bundle"], done["key_id"])
    reader.hub("remove", "pantry/jars").went_well()
    with served(author, root, url) as again:
        assert again == url
        reader.hub("install", "--lock", str(lock)).went_well()
    reader.hub(*run, "runs/second", "--lock", str(lock)).went_well()
    first, second = (played(reader.project / "runs" / name) for name in ("first", "second"))
    assert [(environment.bundle, score.reward) for _, environment, _, _, score in first] == [(done["bundle"], 1.0)] * 2
    assert first == second
