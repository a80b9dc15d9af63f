"""Apps that this project did not write read what `--print-config` prints; `.ci/foreign.sh` installs them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rollouthub.store import find_runs, open_run
from rollouthub.store.run_facts import RunInfo

pytestmark = pytest.mark.live

FOREIGN = Path(__file__).parents[2] / ".ci" / "foreign"
NODE = (FOREIGN / "mcp-tools" / "node").resolve()
HUB = Path(sys.executable).with_name("hub")


class Desk:
    """A home of its own, where an app finds no other settings."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.store = folder, folder / "store"
        self._variables = {"HOME": str(folder), "PATH": f"{NODE.parent}:/usr/bin:/bin"}

    def run(self, *command: str | Path) -> str:
        """What a command prints."""
        line = [str(word) for word in command]
        done = subprocess.run(
            line, cwd=self.folder, env=self._variables, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    def printed(self, app: str) -> str:
        """The configuration of an app."""
        return self.run(HUB, "connect", "arithmetic", "-o", self.store, "--print-config", app)

    def app(self, name: str, program: str) -> Path:
        """An installed app; skipped aloud where it is not."""
        found = FOREIGN / name / "node_modules" / ".bin" / program
        if not found.exists() or not NODE.exists():
            pytest.skip(f"{program} is not installed; run .ci/foreign.sh")
        return found


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A home, and the folder of a project."""
    return Desk(tmp_path)


def test_codex_reads_it(desk: Desk) -> None:
    codex = desk.app("agents/codex", "codex")
    (desk.folder / ".codex").mkdir()
    (desk.folder / ".codex" / "config.toml").write_text(desk.printed("codex"))
    read = json.loads(desk.run(codex, "mcp", "get", "arithmetic", "--json"))
    assert read["enabled"]
    assert read["transport"]["type"] == "stdio"
    assert [read["transport"]["command"], *read["transport"]["args"]] == [
        *(str(HUB), "connect", "arithmetic", "-o", str(desk.store))
    ]


def test_claude_code_takes_the_line_and_connects(desk: Desk) -> None:
    claude = desk.app("agents/claude-code", "claude")
    line = desk.printed("claude-code")
    assert line.startswith("claude mcp add ")
    desk.run("bash", "-c", f"{claude}{line.removeprefix('claude')}")
    assert "Connected" in desk.run("env", "MCP_TIMEOUT=60000", claude, "mcp", "list")


def test_opencode_connects(desk: Desk) -> None:
    opencode = desk.app("agents/opencode", "opencode")
    (desk.folder / "opencode.json").write_text(desk.printed("opencode"))
    assert "✓ arithmetic" in desk.run(opencode, "mcp", "list")


def test_the_inspector_calls_a_tool_and_its_episode_is_scored(desk: Desk) -> None:
    inspector = desk.app("mcp-tools", "mcp-inspector")
    (desk.folder / "mcp.json").write_text(desk.printed("inspector"))
    asked = ("--method", "tools/call", "--tool-name", "calculate", "--tool-arg", "expression=6*7+0")
    said = desk.run(inspector, "--cli", "--config", "mcp.json", "--server", "arithmetic", *asked)
    assert json.loads(said)["content"][0]["text"] == "42"
    [run] = find_runs(desk.store)
    assert isinstance(run, RunInfo)
    with open_run(run.directory) as reader:
        [row] = reader.summaries()
        assert reader.rollout(row.rollout_id).reward == 0.0
