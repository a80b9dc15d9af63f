"""The benchmark of layers finds the layer that was made slow, with the environment and the model really at work."""

import json
from pathlib import Path

import pytest

from rollouthub.bench.bottleneck import BottleneckVerdict, MeasuredRun, judge
from rollouthub.bench.cell import mock_server
from rollouthub.bench.layer import Alone, Reach, Setup
from rollouthub.bench.layers import measure_layers
from rollouthub.bench.layers_cell import alone
from rollouthub.bench.layers_run import play
from rollouthub.engine.run_request import RunRequest
from rollouthub.errors import ConfigError, HubError
from rollouthub.models.credentials import Credentials

LEVER = """
import time
from collections.abc import Iterator

import anyio

from rollouthub import Environment, EnvironmentConfig, Public, Score, Secret, Submission, Task, tool


class LeverConfig(EnvironmentConfig):
    pull_seconds: float = 0.0
    verdict_cpu_seconds: float = 0.0


class Lever(Environment[LeverConfig]):
    @classmethod
    def tasks(cls, config: LeverConfig, split: str, seed: int) -> Iterator[Task[Public, Secret]]:
        for number in range(8):
            yield Task(Public(id=str(number), prompt="Pull the lever."), Secret())

    @tool
    async def pull(self) -> str:
        \"\"\"Pull it.\"\"\"
        await anyio.sleep(self.config.pull_seconds)
        return "done"

    async def verify(self, submission: Submission) -> Score:
        end = time.process_time() + self.config.verdict_cpu_seconds
        while time.process_time() < end:
            pass
        return Score(reward=1.0)
"""
IN_FLIGHT = 4


@pytest.fixture
def lever(tmp_path: Path) -> str:
    """An environment whose tool waits as long, and whose verifier works as long, as it is told to."""
    file = tmp_path / "lever.py"
    file.write_text(LEVER)
    return str(file)


async def judged(
    lever: str, model: str = "mock/solver", reach: Reach = "near", **settings: float
) -> tuple[Alone, BottleneckVerdict]:
    """The layers and a run in this process, and what holds it back."""
    request = RunRequest(environments=(lever,), model=model, set={**settings}, concurrency=IN_FLIGHT)
    measured = await alone(Setup(request=request, seconds=0.05, reach=reach), Credentials())
    run = request.model_copy(update={"limit": measured.tasks, "repeats": 4})
    played = await play(Setup(request=run), Credentials())
    assert (played.rollouts, played.unscored) == (4 * 8, 0)
    return measured, judge(MeasuredRun("one process", "one process", played, IN_FLIGHT, cores=2), measured.layers)


async def test_every_layer_is_measured_with_what_a_rollout_asks_of_it(lever: str) -> None:
    measured, verdict = await judged(lever, reach="all")
    assert [(layer.layer, layer.work, layer.per_rollout) for layer in measured.layers] == [
        ("model", "call", 2),
        ("environment", "open and close", 1),
        ("environment", "tool call", 1),
        ("verifier", "verdict", 1),
        ("transport", "open and close, served", 1),
        ("transport", "tool call over MCP", 1),
        ("transport", "verdict, served", 1),
        ("store", "record", 1),
        ("schedule", "sample", 1),
    ]
    assert all(layer.per_second > 0 and layer.cpu_ms > 0 for layer in measured.layers)
    assert [bound.per_second for bound in verdict.bounds] == sorted(bound.per_second for bound in verdict.bounds)


async def test_a_slow_model_is_the_bottleneck(lever: str) -> None:
    measured, verdict = await judged(lever, "mock/solver?latency=0.15")
    assert verdict.bottleneck == "model"
    assert verdict.possible_per_second <= IN_FLIGHT / 0.3
    assert "raise the concurrency" in verdict.sentence
    model = measured.layers[0]
    assert model.at_twice is not None
    assert model.at_twice > 1.3 * model.per_second


async def test_a_slow_tool_makes_the_environment_the_bottleneck(lever: str) -> None:
    _, verdict = await judged(lever, pull_seconds=0.1)
    assert verdict.bottleneck == "environment"
    assert verdict.possible_per_second <= IN_FLIGHT / 0.1
    assert "× tool call a second at 4 in flight" in verdict.sentence


async def test_a_verifier_that_computes_is_the_bottleneck_by_its_cpu(lever: str) -> None:
    _, verdict = await judged(lever, verdict_cpu_seconds=0.02)
    assert verdict.bottleneck == "verifier"
    assert verdict.possible_per_second <= 1 / 0.02
    assert verdict.bounds[0].kind == "cpu"
    assert "add workers" in verdict.sentence


async def test_what_cannot_be_scored_cannot_be_measured(lever: str) -> None:
    request = RunRequest(environments=(lever,), model="mock/solver?fail=1", max_tries=1, concurrency=IN_FLIGHT)
    with pytest.raises(HubError, match=r"none of 4 rollouts was scored.* model: simulated failure"):
        await alone(Setup(request=request, seconds=0.05), Credentials())


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"environments": ["http://127.0.0.1:1"]}, "served by others"),
        ({"base_url": "http://127.0.0.1:1"}, "needs its model"),
        ({"base_url": "http://127.0.0.1:1", "model": "mock/solver"}, "leave --base-url out"),
        ({"set": {"sighs": 5}}, "sighs"),
    ],
)
def test_what_does_not_hold_is_met_before_anything_starts(settings: dict[str, object], why: str) -> None:
    said: list[str] = []
    with pytest.raises(ConfigError, match=why):
        measure_layers(RunRequest.model_validate({"environments": ["arithmetic"], **settings}), said.append)
    assert said == []


@pytest.mark.soak
def test_whole_runs_are_judged_over_all_processes_and_another_backend(lever: str) -> None:
    said: list[str] = []
    with mock_server("mock/solver?latency=0.05") as url:
        model = {"model": "hosted_vllm/mock/solver", "base_url": (url,)}
        request = RunRequest.model_validate({"environments": [lever], "concurrency": IN_FLIGHT, **model})
        report = measure_layers(request, said.append, rollouts=64, is_quick=True)
    assert [run.name for run in report.runs] == [
        "one process",
        "served",
        "Ray, 2 workers",
        "one process, hosted_vllm/mock/solver",
    ]
    assert [run.played.unscored for run in report.runs] == [0, 0, 0, 0]
    assert [run.played.model_cpu_ms > 0 for run in report.runs] == [True, True, True, False]
    assert report.runs[1].played.servers_cpu_ms > 0
    assert report.runs[2].played.workers_cpu_ms > 0
    assert report.verdicts[3].bottleneck == "model"
    assert [layer.layer for layer in report.layers["hosted_vllm/mock/solver"]] == ["model"]
    told = json.loads(json.dumps(report.as_json()))
    assert [verdict["run"] for verdict in told["verdicts"]] == [run["name"] for run in told["runs"]]
    assert {layer["model"] for layer in told["layers"]} == {"mock/solver", "hosted_vllm/mock/solver"}
