"""One run on all faces: a number that several of them show has one value and is written in one way."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("textual")

import rollouthub
from rollouthub.statistics import amounts
from rollouthub.store import open_run
from rollouthub_tui.screens.run import RunScreen
from rollouthub_tui.widgets.overview.panels import FiguresPanel
from tests.cli.conftest import Hub
from tests.cli.conftest import hub as hub
from tests.tui.stage import stage, watched
from tests.tui.walking import lines, settled, until
from tests.views.figures_run import play
from tests.views.web.conftest import served

pytest.importorskip("pyarrow")

N, S, R = r"-?\d+\.\d{3}", r"\d+\.\d%", r"\([^)]*\)"
"""A reward, a share, and an interval, as patterns."""
T, D, C = r"[\d.]+ (?:ms|s)", r"\$[\d.]+", r"\d+(?:,\d{3})*"
"""A duration, a cost, and a count."""
STAGES = ("setup", "agent", "tool", "verify", "total")
Written = dict[str, str]


@dataclass(frozen=True)
class Played:
    """Two runs of the same tasks, and a rollout of the first to look at."""

    run: Path
    other: Path
    rollout_id: str
    hub: Hub

    def says(self, *arguments: str | Path) -> str:
        """What a command prints."""
        done = self.hub(*map(str, arguments))
        assert done.code == 0, (done.out, done.err)
        return done.out


@pytest.fixture
def played(tmp_path: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> Played:
    """The runs."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    runs = tmp_path / "runs"
    for name, accuracy in (("first", 0.55), ("second", 0.8)):
        play(runs / name, accuracy, monkeypatch).close()
    with open_run(runs / "first") as reader:
        row = next(row for row in reader.summaries() if row.task_id == "torn/1")
    return Played(runs / "first", runs / "second", row.rollout_id, hub)


def stages(prefix: str = "") -> Iterable[str]:
    """The patterns of a table of stages."""
    for name in STAGES:
        yield rf"{prefix}{name} (?P<{name}_p50>{T}) (?P<{name}_p95>{T}) (?P<{name}_p99>{T})"


def found(text: str, patterns: Iterable[str]) -> Written:
    """What a text says, by the names of the patterns' groups; every pattern must be in it."""
    said: Written = {}
    for pattern in patterns:
        match = re.search(pattern, text)
        assert match is not None, f"{pattern} is not in: {text}"
        said |= {name: each for name, each in match.groupdict().items() if each is not None}
    return said


def together(*parts: Written) -> Written:
    """What the places of one face say, which must not contradict each other."""
    said: Written = {}
    for part in parts:
        assert {name: said[name] for name in said.keys() & part} == {name: part[name] for name in said.keys() & part}
        said |= part
    return said


def flat(text: str) -> str:
    """A text without line breaks, frames and columns."""
    return " ".join(text.replace("│", " ").split())


def words(page: str) -> str:
    """The text of a page, on one line, without styles and charts."""
    page = re.sub(r"<(style|svg)\b.*?</\1>", " ", page, flags=re.DOTALL)
    return flat(unescape(re.sub(r"<[^>]*>", " ", page)))


AT_TWO = rf"(?P<at2>{S}) (?P<at2_range>{R})"
OF_TEN = r"(?P<at2_tasks>\d+ of \d+)"


async def terminal(played: Played) -> Written:
    """`hub watch`."""
    app = stage(lambda: RunScreen(watched(played.run, played.run.parent)), played.run.parent)
    async with app.run_test(size=(220, 60)) as pilot:
        await settled(pilot)
        await until(pilot, lambda: pilot.app.screen.query_one(FiguresPanel).is_drawn)
        overview = flat(" ".join(lines(pilot)))
        await pilot.press("2")
        await settled(pilot)
        rollouts = [flat(line) for line in lines(pilot) if "torn/1 0 " in flat(line)]
        await pilot.press("3")
        await settled(pilot)
        tasks = flat(" ".join(lines(pilot)))
    return together(
        found(
            overview,
            (
                rf"mean reward (?P<mean>{N}) (?P<mean_range>{R})",
                rf"strict (?P<strict>{N})",
                rf"pass rate (?P<passing>{S}) (?P<passing_range>{R})",
                rf"pass@2 {AT_TWO}, {OF_TEN} tasks",
                rf"coverage (?P<coverage>{S}) of (?P<planned>{C}) planned",
                rf"retried (?P<retried>{C}) attempts",
                rf"(?P<done>{C})/{C} 100.0%",
                rf"agent failures (?P<agent_failures>{C}) {S}",
                rf"verifier faults (?P<verifier_faults>{C}) {S}",
                rf"Ledger (?P<ledger_scored>{C}/{C}) (?P<ledger_passing>{S}) (?P<ledger_mean>{N}) (?P<ledger_std>{N})",
                r"verifier:VerifierError (?P<verifier_errors>\d+)",
                *stages(),
            ),
        ),
        found(tasks, (rf"plain/0 4 (?P<plain_passing>{S}) (?P<plain_mean>{N}) (?P<plain_std>{N})",)),
        found(
            rollouts[0],
            (
                rf"torn/1 0 (?P<turns>\d+) (?P<calls>\d+) (?P<tokens>\d+) (?P<reward>{N})",
                rf" (?P<time>{T}) Ledger ",
            ),
        ),
    )


async def text_mode(played: Played) -> Written:
    """`hub watch --text`."""
    said = played.says("watch", "--text", played.run, "--do", "summary", "--do", "tasks")
    return found(
        flat(said),
        (
            rf"mean reward: (?P<mean>{N}) of (?P<scored>{C}) scored",
            rf"strict mean reward: (?P<strict>{N})",
            rf"pass rate: (?P<passing>{S})",
            rf"coverage: (?P<coverage>{S})",
            rf"done: (?P<done>{C}) of (?P<planned>{C})",
            rf"retried: (?P<retried>{C}) attempts",
            rf"tokens: (?P<output_tokens>{C}) of answers, (?P<prompt_tokens>{C}) of prompts",
            rf"cost: (?P<cost>{D})",
            rf"(?P<agent_failures>{C}) agent failures, (?P<verifier_faults>{C}) verifier faults",
            r"verifier:VerifierError (?P<verifier_errors>\d+)",
            rf"environment Ledger: .*? pass rate (?P<ledger_passing>{S}), mean reward (?P<ledger_mean>{N}), "
            rf"std of rewards (?P<ledger_std>{N})",
            rf"plain/0: .*? pass rate (?P<plain_passing>{S}), mean reward (?P<plain_mean>{N}), "
            rf"std of rewards (?P<plain_std>{N})",
            *(rf"median times: .*?{stage} (?P<{stage}_p50>{T})" for stage in STAGES),
        ),
    )


async def show(played: Played) -> Written:
    """`hub show RUN` and `hub show RUN ROLLOUT`."""
    whole = flat(played.says("show", played.run, "--limit", "0"))
    one = flat(played.says("show", played.run, played.rollout_id))
    listed = found(
        whole,
        (
            rf"all \d+ (?P<scored>{C})/(?P<planned>{C}) (?P<mean>{N}) (?P<mean_range>{R}) (?P<passing>{S}) "
            rf"(?P<passing_range>{R})",
            rf"Ledger \d+ (?P<ledger_scored>{C}/{C}) (?P<ledger_mean>{N}) (?P<ledger_range>{R}) "
            rf"(?P<ledger_passing>{S})",
            rf" 2 {AT_TWO} {N} {R} {OF_TEN}",
            rf"strict mean (?P<strict>{N})",
            rf"(?P<prompt_tokens>{C}) prompt and (?P<output_tokens>{C}) output tokens",
            rf"tokens · (?P<cost>{D})",
            rf"agent_failed agent failure (?P<agent_failures>{C})",
            rf"verifier_failed verifier fault (?P<verifier_faults>{C})",
            r"attempts broken by verifier:VerifierError (?P<verifier_errors>\d+)",
            rf"{played.rollout_id} torn/1 scored finished (?P<reward>{N}) (?P<turns>\d+) (?P<calls>\d+) "
            rf"(?P<tokens>\d+) (?P<time>{T})",
            *stages(),
        ),
    )
    alone = (rf"reward (?P<reward>{N}) ", rf"(?P<time>{T}): setup {T}", r"(?P<last_turn>turn 2)", RESULT)
    return together(listed, found(one, alone))


RESULT = rf"(?P<call_time>{T})(?:,| ·) (?P<call_bytes>\d+ bytes)"


async def printed_json(played: Played) -> Written:
    """The figures themselves, from `hub show --json`, each written by the one function for its kind."""
    told: dict[str, Any] = json.loads(played.says("show", played.run, "--json"))
    ledger = told["environments"]["Ledger"]
    one, two, *_ = told["at_k"]
    with open_run(played.run) as reader:
        plain = next(group for group in reader.group_counts() if group.task_id == "plain/0")
        row = next(row for row in reader.summaries() if row.rollout_id == played.rollout_id)
        record = reader.rollout(played.rollout_id)
        totals = reader.totals()

    def between(found: Mapping[str, float], write: Any = amounts.number) -> str:
        return f"({write(found['low'])}–{write(found['high'])})"

    return {
        "mean": amounts.number(told["mean_reward"]),
        "mean_range": between(one["avg_at_k"]),
        "strict": amounts.number(told["mean_reward_strict"]),
        "passing": amounts.share(told["pass_rate"]),
        "passing_range": between(one["pass_at_k"], amounts.share),
        "at2": amounts.share(two["pass_at_k"]["value"]),
        "at2_range": between(two["pass_at_k"], amounts.share),
        "at2_tasks": f"{two['pass_at_k']['tasks']} of 10",
        "coverage": amounts.share(told["coverage"]),
        "scored": f"{told['scored']}",
        "planned": f"{told['rollouts']}",
        "done": f"{sum(told['outcomes'].values())}",
        "retried": f"{totals.attempts - sum(told['outcomes'].values())}",
        "agent_failures": f"{told['outcomes']['agent_failed']}",
        "verifier_faults": f"{told['outcomes']['verifier_failed']}",
        "verifier_errors": f"{told['attempt_faults']['verifier:VerifierError']}",
        "prompt_tokens": f"{told['prompt_tokens']:,}",
        "output_tokens": f"{told['output_tokens']:,}",
        "cost": amounts.dollars(told["cost"]),
        "ledger_scored": f"{ledger['scored']}/{ledger['rollouts']}",
        "ledger_mean": amounts.number(ledger["mean_reward"]),
        "ledger_passing": amounts.share(ledger["pass_rate"]),
        "plain_mean": amounts.number(plain.mean_reward),
        "plain_std": amounts.number(plain.deviation),
        "plain_passing": amounts.share(plain.pass_rate),
        "reward": amounts.number(row.reward),
        "time": amounts.seconds(row.seconds),
        "turns": f"{row.turns}",
        "calls": f"{row.tool_calls}",
        "tokens": f"{row.output_tokens}",
        "rollout_cost": amounts.dollars(row.cost),
        "last_turn": amounts.turn_number(record.turns[-1].index),
        "call_time": amounts.seconds(record.turns[0].tool_calls[0].seconds),
        **{
            f"{stage}_{rank}": amounts.seconds(seconds)
            for stage in STAGES
            for rank, seconds in told["stages"][stage].items()
        },
    }


async def notebook(played: Played) -> Written:
    """`run` and `run.rollout(…)` in a cell, and the table of pass@k."""
    with rollouthub.open_run(played.run) as run:
        cell, page = repr_html(run), repr_html(run.rollout(played.rollout_id))
        (two,) = (each for each in run.pass_at_k().to_pylist() if each["k"] == 2)
    said = found(
        words(cell),
        (
            rf"rollouts (?P<done>{C}) of (?P<planned>{C})",
            rf"mean reward (?P<mean>{N}) (?P<mean_range>{R}) over (?P<scored>{C}) scored",
            rf"strict mean (?P<strict>{N})",
            rf"pass rate (?P<passing>{S}) (?P<passing_range>{R})",
            rf"pass@2 {AT_TWO} over {OF_TEN} tasks",
            rf"coverage (?P<coverage>{S})",
            rf"tokens (?P<prompt_tokens>{C}) prompt, (?P<output_tokens>{C}) output",
            rf"cost (?P<cost>{D})",
            r"verifier_failed (?P<verifier_faults>\d+), agent_failed (?P<agent_failures>\d+)",
            rf"Ledger (?P<ledger_scored>{C}/{C}) (?P<ledger_mean>{N}) (?P<ledger_range>{R}) (?P<ledger_passing>{S}) "
            rf"{R} (?P<ledger_std>{N})",
            *stages(),
        ),
    )
    assert amounts.share(two["value"]) == said["at2"], "the table has the values themselves"
    alone = (rf"reward (?P<reward>{N})", rf"time .*?total (?P<time>{T})", r"(?P<last_turn>turn 2)", RESULT)
    return together(said, found(words(page), alone))


def repr_html(shown: Any) -> str:
    """What a notebook shows."""
    return shown._repr_html_()


REPORT = (
    rf"(?P<agent_failures>{C}) agent failures (?P<verifier_faults>{C}) verifier faults",
    rf"(?P<retried>{C}) attempts broke and were tried again",
    rf"all \d+ (?P<scored>{C})/(?P<planned>{C}) (?P<mean>{N}) (?P<mean_range>{R}) (?P<strict>{N}) {R} "
    rf"(?P<passing>{S}) (?P<passing_range>{R})",
    rf"Ledger \d+ (?P<ledger_scored>{C}/{C}) (?P<ledger_mean>{N}) (?P<ledger_range>{R}) {N} {R} "
    rf"(?P<ledger_passing>{S})",
    rf" 2 {AT_TWO} {N} {R} {OF_TEN}",
    rf"the agent's model {C} (?P<prompt_tokens>{C}) (?P<output_tokens>{C}) (?P<cost>{D}) (?P<rollout_mean_cost>{D})",
    r"verifier:VerifierError (?P<verifier_errors>\d+)",
    rf"plain/0 4/4 \d+ (?P<plain_mean>{N}) (?P<plain_std>{N})",
    *stages("(?:… )?"),
)


async def report(played: Played) -> Written:
    """`hub report`, as a page."""
    played.says("report", played.run, "-o", played.run.parent / "report.html")
    page = words((played.run.parent / "report.html").read_text())
    tiles = found(
        page,
        (
            rf"mean reward (?P<mean>{N}) (?P<mean_range>{R})",
            rf"mean reward, strict (?P<strict>{N})",
            rf"pass@2 {AT_TWO}, {OF_TEN} tasks",
            rf"coverage (?P<coverage>{S}) (?P<scored>{C}) of (?P<planned>{C}) scored",
        ),
    )
    return together(found(page, REPORT), tiles)


async def view(played: Played) -> Written:
    """The pages of `hub view`, its report left out, which is the same as the other one."""
    async with served(played.run, environ={"XDG_RUNTIME_DIR": str(played.run.parent)}) as visit:
        run = words((await visit.get("run/first")).text)
        tasks = words((await visit.get("run/first/tasks")).text)
        page = words((await visit.get(f"run/first/rollout/{played.rollout_id}")).text)
        listed = words((await visit.get("")).text)
        reported = words((await visit.get("run/first/report")).text)
    of_run = found(
        run,
        (
            rf"mean reward (?P<mean>{N}) (?P<mean_range>{R})",
            rf"strict mean (?P<strict>{N})",
            rf"pass rate (?P<passing>{S}) (?P<passing_range>{R})",
            rf"pass@2 {AT_TWO}, {OF_TEN} tasks",
            rf"coverage (?P<coverage>{S}) (?P<scored>{C}) of (?P<planned>{C}) scored",
            rf"retried (?P<retried>{C})",
            rf"cost (?P<cost>{D}) (?P<rollout_mean_cost>{D}) a rollout",
            rf"(?P<agent_failures>{C}) agent failures {S} (?P<verifier_faults>{C}) verifier faults",
            r"verifier:VerifierError (?P<verifier_errors>\d+)",
            rf"torn/1 Ledger 0 (?P<reward>{N}) (?P<turns>\d+) (?P<tokens>\d+) (?P<time>{T}) (?P<rollout_cost>{D})",
        ),
    )
    of_tasks = found(
        tasks, (rf"plain/0 Ledger 4/4 \d+ \((?P<plain_passing>{S})\) (?P<plain_mean>{N}) (?P<plain_std>{N})",)
    )
    of_page = found(page, (rf"reward (?P<reward>{N})", r"(?P<last_turn>turn 2)", RESULT))
    return together(of_run, of_tasks, of_page, found(listed, LISTED), found(reported, REPORT))


LISTED = (rf" (?P<done>{C})/(?P<planned>{C}) .*?(?P<mean>{N}) (?P<passing>{S})",)


async def runs(played: Played) -> Written:
    """`hub runs`."""
    said = flat(played.says("runs", "--root", played.run.parent))
    return found(
        said,
        (
            rf"/first finished \S+ \S+ UTC (?P<scored>{C}) (?P<done>{C}) (?P<planned>{C}) "
            rf"(?P<mean>{N}) (?P<passing>{S})",
        ),
    )


async def compare(played: Played) -> Written:
    """`hub compare`, where the runs played the same tasks."""
    said = flat(played.says("compare", played.run, played.other))
    return found(
        said,
        (
            rf"accuracy=0.55 (?P<scored>{C})/(?P<done>{C}) (?P<mean>{N}) (?P<mean_range>{R}) (?P<passing>{S})",
            rf"accuracy=0.55 {C} {C} (?P<total_p50>{T}) (?P<total_p95>{T}) (?P<rollout_mean_cost>{D})",
            rf"all mock/solver\?accuracy=0.55 {N} {R} (?P<ledger_mean>{N}) (?P<ledger_range>{R}) ",
        ),
    )


FACES = (terminal, text_mode, show, printed_json, notebook, report, view, runs, compare)


async def test_a_number_is_the_same_and_written_alike_on_all_faces(played: Played) -> None:
    said: dict[str, dict[str, str]] = {}
    for face in FACES:
        for name, written in (await face(played)).items():
            said.setdefault(name, {})[face.__name__] = written
    apart = [f"{name}: {faces}" for name, faces in said.items() if len(set(faces.values())) > 1]
    assert not apart, "\n".join(apart)
    assert {name for name, faces in said.items() if len(faces) == 1} == set()
    assert len(said["mean"]) == len(said["passing"]) == len(FACES)
    assert min(len(said[name]) for name in ("at2", "at2_tasks", "mean_range", "scored", "ledger_mean", "reward")) >= 5
