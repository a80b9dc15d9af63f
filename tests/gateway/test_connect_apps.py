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


class AppHarness:
    """Runs an app with a home directory of its own, without other settings."""

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
def harness(tmp_path: Path) -> AppHarness:
    """A home, and the folder of a project."""
    return AppHarness(tmp_path)


def test_codex_reads_it(harness: AppHarness) -> None:
    codex = harness.app("agents/codex", "codex")
    (harness.folder / ".codex").mkdir()
    (harness.folder / ".codex" / "config.toml").write_text(harness.printed("codex"))
    read = json.loads(harness.run(codex, "mcp", "get", "arithmetic", "--json"))
    assert read["enabled"]
    assert read["transport"]["type"] == "stdio"
    assert [read["transport"]["command"], *read["transport"]["args"]] == [
        *(str(HUB), "connect", "arithmetic", "-o", str(harness.store))
    ]


def test_claude_code_takes_the_line_and_connects(harness: AppHarness) -> None:
    claude = harness.app("agents/claude-code", "claude")
    line = harness.printed("claude-code")
    assert line.startswith("claude mcp add ")
    harness.run("bash", "-c", f"{claude}{line.removeprefix('claude')}")
    assert "Connected" in harness.run("env", "MCP_TIMEOUT=60000", claude, "mcp", "list")


def test_opencode_connects(harness: AppHarness) -> None:
    opencode = harness.app("agents/opencode", "opencode")
    (harness.folder / "opencode.json").write_text(harness.printed("opencode"))
    assert "✓ arithmetic" in harness.run(opencode, "mcp", "list")


def test_the_inspector_calls_a_tool_and_its_episode_is_scored(harness: AppHarness) -> None:
    inspector = harness.app("mcp-tools", "mcp-inspector")
    (harness.folder / "mcp.json").write_text(harness.printed("inspector"))
    asked = ("--method", "tools/call", "--tool-name", "calculate", "--tool-arg", "expression=6*7+0")
    said = harness.run(inspector, "--cli", "--config", "mcp.json", "--server", "arithmetic", *asked)
    assert json.loads(said)["content"][0]["text"] == "42"
    [run] = find_runs(harness.store)
    assert isinstance(run, RunInfo)
    with open_run(run.directory) as reader:
        [row] = reader.summaries()
        assert reader.rollout(row.rollout_id).reward == 0.0
