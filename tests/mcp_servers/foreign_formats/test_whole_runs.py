"""Whole runs over foreign processes: one is killed in the middle, another's libraries cannot be installed."""

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from rollouthub import ModelReply, ModelRequest, Outcome, ToolRequest, aevaluate
from rollouthub.errors import UsageError
from rollouthub.messages import assistant
from rollouthub.models.mock.mock_server import ModelServer, listening
from rollouthub.plugins.lock import LockedDependency
from rollouthub.processes import descendants
from rollouthub.rollout import Usage
from rollouthub.store import open_run
from rollouthub_servers.bfcl.row import BfclRow, RowMessage, RowTool, RowWriter
from rollouthub_servers.foreign.package import ImportedPackage
from rollouthub_servers.foreign.requirements import LOCK_FILE, PYTHON, ForeignLock

WORLD = Path(__file__).with_name("killed_world.py")
CALL: dict[str, Any] = {"x": {"word": "right"}}
TASKS = 8


class Killer:
    """Calls the function that its task asks for, then says so; at one call it kills the driver first."""

    name = "openai/killer"

    def __init__(self) -> None:
        self.asked = 0
        self.killed: list[int] = []

    async def generate(self, request: ModelRequest) -> ModelReply:
        """The next thing to do."""
        self.asked += 1
        if self.asked >= TASKS // 2 and not self.killed:
            self.killed = [pid for pid in descendants(os.getpid()) if _is_driver(pid)]
            for pid in self.killed:  # the guard that watches it comes first, where it has no other walls
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        is_first = all(message.role != "tool" for message in request.messages)
        call = ToolRequest(id="call-1", name="verify", arguments='{"x": {"word": "right"}}')
        message = assistant("", call) if is_first else assistant("Done.")
        return ModelReply(message=message, finish_reason="stop", usage=Usage(prompt_tokens=3, output_tokens=2))


def _is_driver(pid: int) -> bool:
    words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return b"-m" in words and b"tests.mcp_servers.foreign_formats.shaped_bfcl" in words and words[0] != b"bwrap"


def write_rows(data: Path) -> None:
    """As many tasks as are played, each answered by one call."""
    tool = RowTool(name="verify", description="It.", parameters={"type": "object", "properties": {"x": {}}})
    turns = ((RowMessage(role="user", content="Please."),),)
    data.mkdir(exist_ok=True)
    RowWriter(data).write(
        BfclRow(
            id=f"multi_turn_base_{number}",
            category="multi_turn_base",
            truth=[[[{"verify": CALL}]]],
            turns=turns,
            tools=(tool,),
            reference=(),
            classes=("World",),
            config={"World": {}},
        )
        for number in range(TASKS)
    )


async def test_a_run_whose_foreign_process_is_killed_in_the_middle_loses_nothing(tmp_path: Path) -> None:
    data, run = tmp_path / "data", tmp_path / "run"
    write_rows(data)
    model = Killer()
    async with listening(ModelServer(model, ("served",), is_mock=False), "127.0.0.1", 0) as port:
        summary = await aevaluate(
            str(WORLD),
            "hosted_vllm/served",
            base_url=[f"http://127.0.0.1:{port}/v1"],
            directory=run,
            set={"data": str(data)},
            progress=False,
        )
        summary.close()
    assert model.killed, "the driver was there to be killed"
    with open_run(run) as reader:
        rollouts = list(reader.rollouts())
    assert len(rollouts) == TASKS
    assert {rollout.outcome for rollout in rollouts} == {Outcome.SCORED}
    assert {rollout.reward for rollout in rollouts} == {1.0}
    assert any(rollout.attempt > 0 for rollout in rollouts), "what the killed process held was played again"


async def test_libraries_that_cannot_be_installed_stop_the_run_at_its_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    for name in ("UV_DEFAULT_INDEX", "PIP_INDEX_URL"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/simple")  # where nothing listens
    for name in ("UV_HTTP_RETRIES", "PIP_RETRIES"):
        monkeypatch.setenv(name, "0")
    package = tmp_path / "package"
    package.mkdir()
    write_rows(package / "data")
    absent = LockedDependency(name="absent", version="1.0", hashes=("sha256:" + "0" * 64,))
    lock = ForeignLock(python=PYTHON, wheel=absent, dependencies=(absent,))
    (package / "data" / LOCK_FILE).write_text(lock.model_dump_json())
    file = ImportedPackage(
        name="local/rows",
        license=None,
        source="rows",
        title="Rows",
        base="rollouthub_servers.bfcl:Bfcl",
        config="BfclConfig",
        settings={},
        readme="Rows.",
    ).write(package)
    with pytest.raises(UsageError, match=r"absent"):
        await aevaluate(str(file), "mock/solver", directory=tmp_path / "run", progress=False)
