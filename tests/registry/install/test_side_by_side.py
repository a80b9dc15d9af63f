"""Environments that contradict each other, installed from an index and run at once."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rollouthub_registry.bundle.bundle import build_bundle
from rollouthub_registry.install.install_home import InstallHome
from rollouthub_registry.install.installation import Origin, install
from rollouthub_registry.install.installed import Installed
from tests.registry.install.wheels import write_wheel

MANIFEST = """\
name = "acme/{name}"
version = "1.0.0"
submit = false

[server]
command = ["{{python}}", "{{folder}}/server.py"]
requirements = ["{requirement}"]

[tasks]
test = "tasks.jsonl"

[verifier]
command = ["{{python}}", "verify.py"]
"""
SERVER = """\
from importlib.metadata import version
from pathlib import Path

{imported} as Made

server = Made("versions")


@server.tool()
def note() -> str:
    Path("version.txt").write_text(version("mcp"))
    return "noted"


server.run("stdio")
"""
TASK = '{"prompt": "Note the version.", "reference": [{"name": "note", "arguments": {}}]}\n'
VERIFY = """\
import json, sys
from pathlib import Path

noted = Path(json.load(sys.stdin)["workdir"], "version.txt").read_text()
sys.stdout.write(json.dumps({"reward": float(noted.startswith("%s."))}))
"""
CLASS = """\
name = "acme/words"
version = "1.2.0"

[python]
entry = "words:Words"
distribution = "words"
"""
WORDS = """\
from importlib.metadata import version

from rollouthub import Environment, EnvironmentConfig, Public, Score, Secret, Task
from rollouthub.messages import assistant


class Words(Environment[EnvironmentConfig]):
    "Say which version there is."

    version = "1.2.0"

    @classmethod
    def tasks(cls, config, split, seed):
        yield Task(Public(id="one", prompt="Which version of packaging is there?"), Secret(answer=version("packaging")))

    def reference(self):
        return (assistant("24.2"),)

    async def verify(self, submission):
        return Score(reward=float(submission.final == self.task.secret.answer))
"""


def server(folder: Path, requirement: str, imported: str, major: int) -> Path:
    """An environment whose server is written with one version of the MCP SDK, and notes which it has."""
    folder.mkdir()
    (folder / "env.toml").write_text(MANIFEST.format(name=folder.name, requirement=requirement))
    (folder / "server.py").write_text(SERVER.format(imported=imported))
    (folder / "tasks.jsonl").write_text(TASK)
    (folder / "verify.py").write_text(VERIFY % major)
    return folder


@pytest.mark.live
def test_two_mcp_sdks_and_an_old_library_beside_the_hub_play_in_one_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    words = tmp_path / "words"
    write_wheel(words / "wheel", "words", "1.2.0", ["packaging==24.2"], {"words/__init__.py": WORDS})
    (words / "env.toml").write_text(CLASS)
    folders = (
        server(tmp_path / "old", "mcp>=1.12,<2", "from mcp.server.fastmcp import FastMCP", 1),
        server(tmp_path / "new", "mcp>=2.3,<3", "from mcp.server import MCPServer", 2),
        words,
    )
    home = InstallHome.of(os.environ)
    there = [install(build_bundle(folder, tmp_path), Origin(str(folder)), home) for folder in folders]
    command = "from rollouthub.cli.main import main; main()"
    run = tmp_path / "run"
    done = subprocess.run(
        [sys.executable, "-c", command, "run", *(each.name for each in there), "-o", str(run)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    show = [sys.executable, "-c", command, "show", str(run), "--json"]
    shown = json.loads(subprocess.run(show, capture_output=True, text=True, check=True).stdout)
    assert (shown["scored"], shown["mean_reward"]) == (3, 1.0)
    for each in there:
        Installed(home).verify(each)
