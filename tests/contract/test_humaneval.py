"""HumanEval through the wire: every canonical solution passes, and no function that returns None does."""

import gzip
import json
from pathlib import Path

import anyio
import pytest

from rollouthub import BadRow, Deadlines, Submission
from rollouthub.errors import ConfigError
from rollouthub.hosting.local.episode_sandboxes import open_sandboxes
from rollouthub.hosting.open_host import open_served
from rollouthub.protocols import EnvironmentHost, TaskCard
from rollouthub_servers.code import Code, CodeConfig

AT_ONCE = 4


async def rewards(host: EnvironmentHost, answers: dict[str, str]) -> list[float]:
    """What answers get, by task id, each submitted as an agent does."""
    found: list[float] = []
    places = anyio.Semaphore(AT_ONCE)

    async def play(card: TaskCard) -> None:
        async with places, host.open(card, seed=0, deadlines=Deadlines()) as episode:
            await episode.seats["agent"].call_tool("submit", {"answer": answers[card.public.id]})
            score = await episode.conclude(Submission())
            assert score is not None
            found.append(score.reward)

    async with anyio.create_task_group() as players:
        async for card in host.tasks("test", 0):
            assert not isinstance(card, BadRow)
            players.start_soon(play, card)
    return found


@pytest.fixture(params=["process", pytest.param("docker", marks=pytest.mark.soak)])
async def sandbox(request: pytest.FixtureRequest) -> str:
    """The name of a provider that has sandboxes here."""
    try:
        async with open_sandboxes(Code, CodeConfig(sandbox=request.param)):
            return request.param
    except ConfigError as error:
        pytest.skip(f"there are no sandboxes of {request.param} here: {error}")


@pytest.mark.parametrize(
    ("body", "reward", "every"),
    [
        ("canonical_solution", 1.0, 4),
        pytest.param("canonical_solution", 1.0, 1, marks=pytest.mark.soak),
        pytest.param(None, 0.0, 1, marks=pytest.mark.soak),
    ],
)
async def test_humaneval_is_scored_as_it_should_be(
    real_data: Path, tmp_path: Path, sandbox: str, body: str | None, reward: float, every: int
) -> None:
    lines = gzip.decompress((real_data / "humaneval" / "HumanEval.jsonl.gz").read_bytes()).splitlines(keepends=True)
    assert len(lines) == 164
    lines = lines[::every]
    if sandbox == "docker" and body is None:
        lines = lines[::8]  # that they all fail is seen with process; here two containers a task take their time
    file = tmp_path / "HumanEval.jsonl"
    file.write_bytes(b"".join(lines))
    rows = [json.loads(line) for line in lines]
    answers = {row["task_id"]: row["prompt"] + (row[body] if body else "    return None\n") for row in rows}
    with anyio.fail_after(600):
        async with open_served("code", {"data": str(file), "sandbox": sandbox}) as host:
            assert await rewards(host, answers) == [reward] * len(rows)
