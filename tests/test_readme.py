"""Every command and snippet of README.md and docs/ runs as it stands, but for the stand-ins listed here.

The blocks of a document run one after the other in one folder, so that a later one may build on an earlier one:
- `bash` runs, and must exit with 0; `hub serve mock …` alone in a block goes on in the background
- `python` and `toml` that begin with `# NAME.py` or `# NAME.toml` are saved under that name
- other `python` runs where it begins with an import, and is compiled where it is a fragment
- `sql` is asked of `runs/sums/run.db`
- OpenAI's own service is a server of its wire, whose batches are over at once
"""

import json
import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
import tomllib
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.from_thread import start_blocking_portal

from rollouthub.errors import ConfigError
from rollouthub.hosting.wall.wall import open_wall
from tests.cli.conftest import warm
from tests.models.openai_server import MODEL, OpenAIServer

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs/trainers").glob("*.md"))]
PAGES = [*DOCUMENTS, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
LONG = {
    "agents.md",
    "any-mcp-server.md",
    "async-training.md",
    "benchmarks.md",
    "checking.md",
    "cluster.md",
    "coming-from.md",
    "compare.md",
    "connect.md",
    "doctor.md",
    "gateway.md",
    "images.md",
    "installing.md",
    "judges.md",
    "limits.md",
    "live.md",
    "models.md",
    "monitoring.md",
    "notebooks.md",
    "openrlhf.md",
    "publishing.md",
    "registries.md",
    "registry.md",
    "reports.md",
    "rollouts.md",
    "routing.md",
    "sandboxes.md",
    "scoring.md",
    "shipped.md",
    "terminal.md",
    "trackers.md",
    "trainers.md",
    "training-files.md",
    "watch.md",
}
"""Documents whose commands take long: a cluster, containers, installs, measurements, runs one after the other."""
CI_RUNS = {"main-job", "tests"}
"""The blocks after these marks are CI's to run: it reads them from the README."""
ENGINE = "engine"
"""The blocks after this mark need a container engine."""
LONG_BLOCK = "long"
"""The blocks after this mark take long and need none of those before: each is followed for itself, as `live`."""
TRAINER = "trainer"
"""The blocks after this mark need a training system, most of them accelerators, too: Python is compiled, no more."""

BIN = Path(sys.executable).parent
ADDRESS = "http://127.0.0.1:8000/v1"
STAND_INS = {
    "data=PATH": "data={data} --limit 2",
    "hosted_vllm/NAME": "hosted_vllm/mock/solver",
    "openai/gpt-4.1-mini": f"openai/{MODEL}",
    ADDRESS: "{address}",
    "hub publish examples/mcp_server": "hub publish examples/mcp_server --limit 1 {trust}",
    "hub bench overhead": "hub bench overhead --rollouts 10 -c 2 --no-memory --lane floor --lane direct",
    "hub bench latency": "hub bench latency -c 4 --latency 0.05",
    "hub bench serving": "hub bench serving --rollouts 10 -c 2",
    "hub bench sandbox": "hub bench sandbox --quick",
    "hub bench layers": "hub bench layers --quick --rollouts 10 -c 2 --workers 0",
    "hub bench schedule": "hub bench schedule --rollouts 1000",
}
"""What a reader would put in, and shorter measurements. `{data}` is GSM8K, `{address}` a mock server's,
`{trust}` what a machine without any wall for installed environments needs.
"""
FROM_COLD = "README.md"
"""Its commands are started as a user's are; those of the other documents are forks of a `hub` that is loaded."""
STRICT = "import warnings; warnings.simplefilter('error')\n"
SECONDS = 300.0
"""Most that one command takes."""
ROW = {"question": "What is 2 + 2?", "answer": "Two and two are 4.\n#### 4"}


@dataclass(frozen=True)
class Block:
    """A fenced block of a document."""

    language: str
    text: str
    line: int
    mark: str | None
    """The name in an HTML comment right before it."""

    @property
    def file(self) -> str | None:
        """The file it says to be."""
        named = re.match(r"# (\w+\.(?:py|toml))\n", self.text)
        return named[1] if named else None


def blocks(document: Path) -> Iterator[Block]:
    """The fenced blocks of a document, in order."""
    text = document.read_text()
    for found in re.finditer(r"(?:<!-- (\S+) -->\n)?^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield Block(found[2], found[3], text.count("\n", 0, found.start(2)) + 1, found[1])


def hub_alone(text: str) -> list[tuple[list[str], str | None]] | None:
    """The arguments of each command of a block, and the file that its output goes to, where each is `hub` and nothing
    of a shell's but that, quotes and comments is around it; else None.
    """
    found: list[tuple[list[str], str | None]] = []
    for line in text.replace("\\\n", " ").splitlines():
        command, _, file = line.partition(" > ")
        is_plain = not re.search(r"[|&;<>$`*~]", re.sub(r"'[^']*'|#.*", "", command)) and re.fullmatch(r"[\w.-]*", file)
        if not line.startswith("hub ") or not is_plain:
            return None
        found.append((shlex.split(command, comments=True)[1:], file or None))
    return found


def environment(home: Path) -> dict[str, str]:
    """This process's environment with its own `hub` first, and no model server or key of the machine's."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("HOSTED_VLLM_", "OPENAI_"))}
    return kept | {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "HOME": str(home)}


@contextmanager
def serving(command: str, folder: Path) -> Generator[str]:
    """A `hub serve mock …` on a free port; its base URL."""
    line = f"exec {command} --port 0"
    with subprocess.Popen(["bash", "-c", line], cwd=folder, env=environment(folder), stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout is not None
            address = re.search(r"http://\S+", server.stdout.readline().decode())
            assert address is not None, f"{command!r} did not come up"
            yield address[0]
        finally:
            server.terminate()


def openai_says(body: dict[str, Any]) -> str:
    """A verdict where a schema of one is asked for, else a sum."""
    asked = json.dumps(body)
    return '{"reasoning": "", "polite": true, "brief": 4}' if "json_schema" in asked else "The answer is 42."


class Reader:
    """Does what a document says, in a folder of its own."""

    def __init__(self, document: Path, folder: Path, servers: ExitStack) -> None:
        self._document, self._folder, self._servers = document, folder, servers
        self._address: str | None = None
        shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))

    def follow(self, block: Block) -> None:
        """Do what a block says; what it does not say how to do fails."""
        if block.file is not None:
            (self._folder / block.file).write_text(block.text)
        match block.language:
            case "bash":
                self._run_shell(block)
            case "python":
                self._run_python(block)
            case "toml":
                tomllib.loads(block.text)
            case "sql":
                with closing(sqlite3.connect(self._folder / "runs/sums/run.db")) as connection:
                    assert connection.execute(block.text).description
            case other:
                pytest.fail(f"{self._place(block)}: nobody knows how to check a block of {other!r}")

    def look_at(self, block: Block) -> None:
        """See that a block for a training system could be read by it."""
        if block.language == "python":
            compile(block.text, self._place(block), "exec")
        if block.file is not None:
            (self._folder / block.file).write_text(block.text)

    def _run_shell(self, block: Block) -> None:
        if block.text.startswith("hub serve mock"):
            self._address = self._servers.enter_context(serving(block.text.strip(), self._folder))
            return
        text = block.text
        if re.search(r"^\s*curl ", text, re.MULTILINE) and shutil.which("curl") is None:
            pytest.skip(f"{self._place(block)}: curl is not installed")
        for shown, meant in STAND_INS.items():
            if shown in text:
                text = text.replace(shown, meant.format(data=self._data(), address=self._server(), trust=trust()))
        assert not re.search(r"\b(PATH|NAME|DIR|ENV|RUN|ROLLOUT|MODEL)\b", text), f"{self._place(block)}: a placeholder"
        commands = None if self._document.name == FROM_COLD else hub_alone(text)
        if commands is None:
            self._check(block, ["bash", "-euo", "pipefail", "-c", text])
            return
        for command, file in commands:
            done = warm().run(command, self._folder, self._variables(block), SECONDS)
            if file is not None:
                (self._folder / file).write_text(done.stdout)
            self._see(block, done)

    def _run_python(self, block: Block) -> None:
        compile(block.text, self._place(block), "exec")
        if block.file is not None or not block.text.startswith(("import ", "from ")):
            return
        if self._document.name == FROM_COLD:
            self._check(block, [sys.executable, "-W", "error", "-c", block.text])
        else:
            program = STRICT + block.text
            self._see(block, warm().run([], self._folder, self._variables(block), SECONDS, program=program))

    def _check(self, block: Block, command: list[str]) -> None:
        variables = self._variables(block)
        done = subprocess.run(command, cwd=self._folder, env=variables, capture_output=True, text=True, check=False)
        self._see(block, done)

    def _variables(self, block: Block) -> dict[str, str]:
        env = environment(self._folder)
        if "openai/gpt-4.1-mini" in block.text:
            env |= {"OPENAI_API_KEY": "sk-none", "OPENAI_BASE_URL": self._openai()}
        return env

    def _see(self, block: Block, done: "subprocess.CompletedProcess[str]") -> None:
        assert done.returncode == 0, f"{self._place(block)}: exit code {done.returncode}\n{done.stdout}{done.stderr}"

    def _server(self) -> str:
        if self._address is None:
            self._address = self._servers.enter_context(serving("hub serve mock", self._folder))
        return self._address

    def _openai(self) -> str:
        """A server of OpenAI's wire, in a thread."""
        portal = self._servers.enter_context(start_blocking_portal())
        return self._servers.enter_context(portal.wrap_async_context_manager(OpenAIServer(openai_says).serve()))

    def _data(self) -> Path:
        """GSM8K where it is at hand, else a file of its form."""
        if folder := os.environ.get("ROLLOUTHUB_TEST_DATA"):
            return Path(folder) / "gsm8k"
        file = self._folder / "gsm8k.jsonl"
        file.write_text(f"{json.dumps(ROW)}\n" * 2)
        return file

    def _place(self, block: Block) -> str:
        return f"{self._document.relative_to(ROOT)}:{block.line}"


def trust() -> str:
    """The option without which nothing installed is run here; nothing where a wall works."""
    try:
        anyio.run(open_wall, "auto")
    except ConfigError:
        return "--trust"
    return ""


def has_engine(folder: Path) -> bool:
    """Whether a container engine answers."""
    done = subprocess.run([BIN / "hub", "sandbox", "list"], env=environment(folder), capture_output=True, check=False)
    return done.returncode == 0


@pytest.mark.parametrize(
    "document",
    [pytest.param(path, marks=[pytest.mark.live] if path.name in LONG else []) for path in DOCUMENTS],
    ids=[path.name for path in DOCUMENTS],
)
def test_what_a_document_shows_works(document: Path, tmp_path: Path) -> None:
    with ExitStack() as servers:
        reader = Reader(document, tmp_path, servers)
        for block in blocks(document):
            if block.mark == ENGINE and not has_engine(tmp_path):
                pytest.skip(f"{document.name}:{block.line}: no container engine answers")
            if block.mark == TRAINER:
                reader.look_at(block)
            elif block.mark not in CI_RUNS | {LONG_BLOCK}:
                reader.follow(block)


@pytest.mark.live
@pytest.mark.parametrize(
    ("document", "block"),
    [(path, block) for path in DOCUMENTS for block in blocks(path) if block.mark == LONG_BLOCK],
    ids=lambda part: part.name if isinstance(part, Path) else str(part.line),
)
def test_what_takes_long_works(document: Path, block: Block, tmp_path: Path) -> None:
    with ExitStack() as servers:
        Reader(document, tmp_path, servers).follow(block)


def test_ci_runs_what_is_not_run_here() -> None:
    marked = [block.mark for document in DOCUMENTS for block in blocks(document) if block.mark in CI_RUNS]
    assert sorted(marked) == sorted(CI_RUNS)
    for script in ("run", "bare.sh"):
        text = (ROOT / ".ci" / script).read_text()
        assert [mark for mark in CI_RUNS if f"command_after {mark}" not in text] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_and_named_files_lead_somewhere(page: Path) -> None:
    text = page.read_text()
    links = [link for link in re.findall(r"\]\(([^)#]+)", text) if not link.startswith("http")]
    named = re.findall(r"`((?:tests|examples|docs)/[\w/.]+\.\w+)`", text)
    lost = [link for link in links if not (page.parent / link).exists()]
    assert lost + [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("picture", sorted((ROOT / "docs" / "images").glob("*.svg")), ids=lambda path: path.name)
def test_a_picture_refers_to_nothing_outside_itself(picture: Path) -> None:
    text = picture.read_text().replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert re.findall(r"https?://\S+|url\((?!#)[^)]*\)", text) == []


def test_the_index_names_every_page_and_the_readme_stays_short() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    assert [page.name for page in (ROOT / "docs").glob("*.md") if f"({page.name})" not in index] == ["index.md"]
    assert (ROOT / "README.md").read_text().count("\n") <= 150


def test_a_page_names_every_field_that_json_has(tmp_path: Path) -> None:
    command = [BIN / "hub", "run", "arithmetic", "--limit", "1", "--json", "-q"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    page = (ROOT / "docs" / "cli.md").read_text()
    assert [field for field in json.loads(done.stdout) if f"`{field}`" not in page] == []


def test_a_shell_can_complete(tmp_path: Path) -> None:
    asked = environment(tmp_path) | {"_HUB_COMPLETE": "complete_bash", "COMP_WORDS": "hub ru", "COMP_CWORD": "1"}
    done = subprocess.run([BIN / "hub"], env=asked, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["run", "runs"]
