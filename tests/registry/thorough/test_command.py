"""`hub check --thorough` as people use it: a process for the environment, a screen, JSON, a page, exit codes."""

import json
import re
import signal
from html.parser import HTMLParser
from pathlib import Path

import pytest

from rollouthub.errors import UsageError
from rollouthub_registry.audit.cheats import all_cheats
from rollouthub_registry.check.check_request import CheckRequest
from rollouthub_registry.check.thorough.thorough_check import ThoroughCheckRequest, thorough_command
from tests.cli.conftest import (
    Hub,
    hub,  # pyright: ignore[reportUnusedImport]  # noqa: F401  # a fixture
    started,
)

LEAKY = '''
from rollouthub import Environment, EnvironmentConfig, Public, Score, Secret, Task, tool


class Leaky(Environment[EnvironmentConfig]):
    """Tells everybody."""

    @classmethod
    def tasks(cls, config, split, seed):
        for index in range(3):
            yield Task(Public(id=str(index), prompt="Find the <b>word</b>."), Secret(answer=f"the-word-{index}"))

    @tool
    async def peek(self, where: str) -> str:
        """Look under the table."""
        return f"there is a note: <script>{self.task.secret.answer}</script>"

    async def verify(self, submission):
        return Score(reward=float(submission.final == self.task.secret.answer))
'''


def test_a_leak_is_told_on_the_screen_and_on_a_page(hub: Hub, tmp_path: Path) -> None:  # noqa: F811
    (tmp_path / "leaky.py").write_text(LEAKY)
    arguments = ("check", "leaky.py", "--thorough", "--only", "results", "--only", "verbs", "--report", "page.html")
    done = hub(*arguments)
    assert done.code == 1, done.err
    assert "✗  L4  results" in done.out
    assert "✓  L3  verbs" in done.out
    assert "the canary in the secret's 'answer' is in the answer to tool peek at the gateway" in done.out
    assert "1 attacks held · 1 broke" in done.out
    page = (tmp_path / "page.html").read_text()
    HTMLParser().feed(page)
    assert "<script" not in page
    assert "⟦the secret&#x27;s &#x27;answer&#x27;⟧" in page, "a secret is named, and not told"
    assert not re.search(r"the-word-0|canary-\d", page)
    assert not re.search(r"/e/[\w-]{20,}/mcp", page), "tokens are cut"
    assert not re.search(r'(?:src|href)="', page), "nothing is loaded"


def test_a_program_is_told_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        thorough_command(ThoroughCheckRequest("arithmetic", CheckRequest(only=("listings", "sdk-1")), as_json=True))
        == 0
    )
    told = json.loads(capsys.readouterr().out)
    assert (told["passed"], told["held"], told["broke"], told["not_tried"]) == (True, 1, 0, 1)
    assert (told["name"], told["leaks"]["L6"], told["leaks"]["L7"]) == ("arithmetic", "held", "not_tried")
    assert told["digest"].startswith("sha256:")
    assert "mcp<2" in told["attacks"][1]["says"]


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        (ThoroughCheckRequest("arithmetik", CheckRequest(only=("verbs",))), "arithmetic"),
        (ThoroughCheckRequest("arithmetic", CheckRequest(only=("verb",))), "verbs"),
        (ThoroughCheckRequest("arithmetic", CheckRequest(only=("verbs",), split="tset")), "test"),
        (ThoroughCheckRequest("arithmetic", report=Path("nowhere/page.html")), "nowhere/page.html"),
        (ThoroughCheckRequest("http://127.0.0.1:9", CheckRequest(only=("verbs",))), "ROLLOUTHUB_CONTROL_TOKEN"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_mistakes_are_named(asked: ThoroughCheckRequest, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        thorough_command(asked)


def test_a_report_belongs_to_the_thorough_check(hub: Hub) -> None:  # noqa: F811
    assert "--thorough" in hub("check", "arithmetic", "--report", "page.html").refused()


def test_an_interruption_tidies_up_and_tells_what_is_known(tmp_path: Path) -> None:
    with started(tmp_path, "check", "arithmetic", "--thorough", "--report", "page.html") as process:
        assert process.stdout is not None
        lines: list[str] = []
        for line in process.stdout:
            lines.append(line)
            if "discovery" in line:
                break
        servers = _children(process.pid)
        assert servers
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
        assert process.wait(60) == 130
    assert "interrupted after" in rest
    assert "interrupted after" in (tmp_path / "page.html").read_text()
    assert not [server for server in servers if Path(f"/proc/{server}").exists()]


def _children(pid: int) -> list[int]:
    """The processes it started."""
    found: list[int] = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(file.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(file.parent.name))
        except OSError:
            continue
    return found


FOREIGN = Path(__file__).parents[3] / ".ci" / "foreign"


@pytest.mark.live
def test_everything_is_tried_and_holds_where_every_tool_is_here(hub: Hub, tmp_path: Path) -> None:  # noqa: F811
    python, node = FOREIGN / "venv" / "bin" / "python", FOREIGN / "mcp-tools"
    if not python.exists() or not node.exists():
        pytest.skip("the foreign clients are not installed; run .ci/foreign.sh")
    report = tmp_path / "page.html"
    options = ("--mcp1-python", python, "--node-tools", node, "--report", report)
    done = hub("check", "arithmetic", "--thorough", "--limit", "3", "--json", *options, timeout=900)
    assert done.code == 0, done.out
    not_tried = {attack["attack"] for attack in done.json["attacks"] if attack["state"] == "not_tried"}
    of_seats = {"other-seats-tools", "other-seats-words"}
    of_shells = {cheat.name for cheat in all_cheats() if cheat.needs in ("shell", "a shell to look", "a program")}
    assert not_tried >= {"verifier-files", "survivors"} | of_seats | of_shells


TASKS = Path(__file__).parents[2] / "mcp_servers" / "harbor_tasks"
SHIPPED: list[tuple[str, ...]] = [
    ("arithmetic",),
    ("customer_service",),
    ("reasoning_gym", "--set", "size=3"),
    ("visual", "--set", "size=4"),
    ("drawing", "--set", "size=4"),
    ("negotiation",),
    ("board_game",),
    ("debate", "--set", "judge=quotes"),
    ("gsm8k", "--set", "data={data}/gsm8k"),
    ("humaneval", "--set", "data={data}/humaneval", "--set", "sandbox=process"),
    ("aime24", "--set", "data={data}/deepscaler"),
    ("terminal", "--set", f"data={TASKS / 'greeting'}", "--set", "sandbox=docker"),
    (str(Path(__file__).parents[3] / "examples" / "dice.py"),),
]


@pytest.mark.soak
@pytest.mark.parametrize("arguments", SHIPPED, ids=lambda arguments: Path(arguments[0]).name)
def test_what_is_shipped_holds(hub: Hub, arguments: tuple[str, ...], real_data: Path) -> None:  # noqa: F811
    if "sandbox=docker" in arguments and not Path("/var/run/docker.sock").exists():
        pytest.skip("there is no container engine")
    given = [argument.format(data=real_data) for argument in arguments]
    done = hub("check", *given, "--thorough", "--limit", "3", "--json", timeout=900)
    told = json.loads(done.out)
    broke = {attack["attack"]: attack["problems"] for attack in told["attacks"] if attack["state"] == "broke"}
    failed = [check for check in told["checks"] if check["state"] == "failed"]
    assert (done.code, broke, failed) == (0, {}, [])


@pytest.mark.soak
def test_what_a_foreign_server_takes_is_told(hub: Hub) -> None:  # noqa: F811
    example = Path(__file__).parents[3] / "examples" / "mcp_server"
    told = hub("check", example, "--thorough", "--limit", "2", "--json", timeout=900).json
    broke = {attack["attack"] for attack in told["attacks"] if attack["state"] == "broke"}
    assert "strict-arguments" in broke, "its SDK ignores arguments it does not know"
    assert broke <= {"strict-arguments", "heavy-arguments"}
