"""The pages of `hub view` over HTTP: what each says, and that one run has the same figures on all."""

import json
import re
from html import unescape
from pathlib import Path

import anyio
import pytest

from rollouthub import Message, Outcome, Score, Turn
from rollouthub.messages import Media, digest_of
from rollouthub.rollout import TaskRef
from rollouthub.score import Artifact, Component
from rollouthub.statistics.amounts import number, share
from rollouthub.store import open_run, open_writer
from rollouthub.views.web import rollout_content
from tests.store.records import RESOLVED, record, write
from tests.tui.episodes import PICTURE
from tests.tui.made import finished_run, worse_run
from tests.views.cards.test_tokens import sampled

from .conftest import served

TAG = re.compile(r"<[^>]*>")


def words(html: str) -> str:
    """The text of a page, on one line."""
    return " ".join(unescape(TAG.sub(" ", html)).split())


def rows_of(html: str) -> list[str]:
    """The text of each row of the table of rollouts."""
    body = html.partition('class="rollouts"')[2].partition("<tbody>")[2].partition("</tbody>")[0]
    return [words(row.partition(">")[2]) for row in body.split("<tr")[1:]]


async def test_the_list_names_runs_states_progress_and_rewards(tmp_path: Path) -> None:
    await finished_run(tmp_path / "runs" / "first")
    await worse_run(tmp_path / "runs" / "second")
    (tmp_path / "runs" / "broken").mkdir()
    (tmp_path / "runs" / "broken" / "run.db").write_text("no database")
    async with served(roots=(tmp_path / "runs",)) as visit:
        page = (await visit.get("")).text
        text = words(page)
        with open_run(tmp_path / "runs" / "first") as reader:
            means = reader.means()
        assert f"first arithmetic, code, customer_service openai/small {means.finished}/96" in text
        assert number(means.mean_reward) in text and share(means.pass_rate) in text
        line = text.partition("first arithmetic")[2]
        one = words((await visit.get("run/first")).text)
        took = re.search(r"rollouts · \S+ a \w+ · ([0-9:.]+(?: m?s)?)", one)
        assert took and f"UTC {took[1]}" in line, "the list and the page give one duration"
        assert "unreadable" in text
        assert 'name="run" value="second"' in page
        found = words((await visit.get("?search=secnd")).text)
        assert "second arithmetic" in found and "first arithmetic" not in found
        assert "No run fits" in (await visit.get("?search=zzz")).text


async def test_the_list_of_runs_is_sorted_by_links_that_keep_the_search(tmp_path: Path) -> None:
    for name, rewards in (("alpha", (1.0, 1.0)), ("beta", (0.0, 0.0)), ("gamma", (1.0, 0.0, 1.0))):
        made = [record(f"g{at}-0", score=Score(reward=reward)) for at, reward in enumerate(rewards)]
        await write(tmp_path / "runs" / name, made)
    await write(tmp_path / "runs" / "delta", [])

    def listed(page: str) -> list[str]:
        return re.findall(r'data-title="run"[^>]*><a href="[^"]*">(\w+)</a>', page)

    async with served(roots=(tmp_path / "runs",)) as visit:
        page = (await visit.get("")).text
        (link,) = re.findall(r'href="[^"]*(\?sort=mean[^"]*)">mean reward', page)
        assert link == "?sort=mean&amp;order=down", "the best first"
        page = (await visit.get("?sort=mean&order=down")).text
        assert listed(page) == ["alpha", "gamma", "beta", "delta"]
        assert 'aria-sort="descending"><a href="' in page
        assert listed((await visit.get("?sort=mean&order=up")).text) == ["beta", "gamma", "alpha", "delta"]
        most_done = listed((await visit.get("?sort=done")).text)
        assert (most_done[0], most_done[-1]) == ("gamma", "delta")
        assert listed((await visit.get("?sort=run")).text) == ["alpha", "beta", "delta", "gamma"]
        page = (await visit.get("?search=a&sort=run&order=down")).text
        assert listed(page) == ["gamma", "delta", "beta", "alpha"]
        assert "?search=a&amp;sort=run&amp;order=up" in page and "?search=a&amp;sort=mean&amp;order=down" in page
        for wrong in ("?sort=%3Cscript%3E&order=down", "?sort=ended", "?order=down"):
            assert sorted(listed((await visit.get(wrong)).text)) == ["alpha", "beta", "delta", "gamma"]


async def test_a_runs_page_has_its_figures_charts_and_rollouts(tmp_path: Path) -> None:
    run = await finished_run(tmp_path / "run")
    async with served(run) as visit:
        page = (await visit.get("run/run")).text
        text = words(page)
        with open_run(run) as reader:
            means = reader.means()
        for figure in (number(means.mean_reward), share(means.pass_rate), "pass@2", "How rollouts ended", "not passed"):
            assert figure in text
        assert len(rows_of(page)) == 96
        assert page.count("<svg") >= 4
        report = words((await visit.get("run/run/report")).text)
        assert "What made these numbers" in report and "Tokens and cost" in report


async def test_a_row_says_what_was_asked_answered_and_judged(tmp_path: Path) -> None:
    turn = Turn(
        index=0,
        messages=(
            Message(role="system", content="be brief"),
            Message(role="user", content="How many\nlegs has a fly?"),
        ),
        response=Message(role="assistant", content="It has eight."),
    )
    score = Score(reward=0.25, passed=False, feedback="expected 6")
    await write(
        tmp_path / "run", [record("g1-0", turns=(turn,), score=score, task=TaskRef(split="t", id="legs", digest="d"))]
    )
    async with served(tmp_path / "run") as visit:
        (row,) = rows_of((await visit.get("run/run")).text)
        for part in ("◐ partly solved", "legs", "0.250", "How many legs has a fly?", "It has eight.", "expected 6"):
            assert part in row


@pytest.mark.parametrize(
    ("query", "count", "first"),
    [
        ("filter=passed", 48, None),
        ("filter=outcome+!%3D+%22scored%22", 16, None),
        ("search=g7", 8, "7"),
        ("sort=reward&order=down", 96, None),
    ],
)
async def test_the_filter_language_narrows_and_sorts(tmp_path: Path, query: str, count: int, first: str | None) -> None:
    made = [
        record(f"g{n}-{s}", score=Score(reward=float(s % 2), passed=s % 2 == 1)) for n in range(24) for s in range(4)
    ]
    odd = [
        each if place >= 16 else record(each.rollout_id, outcome=Outcome.MODEL_FAILED)
        for place, each in enumerate(made)
    ]
    await write(tmp_path / "run", odd if "outcome" in query else made)
    async with served(tmp_path / "run") as visit:
        page = (await visit.get(f"run/run?{query}")).text
        assert f'data-total="{count}"' in page
        if first is not None:
            assert all(re.search(rf"test/g1?{first} ", row) for row in rows_of(page))
        if "reward" in query:
            assert [row.split()[0] for row in rows_of(page)[:48]] == ["✓"] * 48


async def test_an_ended_run_is_listed_by_task_and_sample_and_others_as_they_ask(tmp_path: Path) -> None:
    made = [record(f"g{n}-{s}", score=Score(reward=1.0)) for n in (10, 2, 9) for s in (1, 0)]
    await write(tmp_path / "run", made)
    async with served(tmp_path / "run") as visit:
        for query, order in (
            ("", ["test/g2 0", "test/g2 1", "test/g9 0", "test/g9 1", "test/g10 0", "test/g10 1"]),
            ("?sort=seq", ["test/g9 0", "test/g9 1", "test/g2 0", "test/g2 1", "test/g10 0", "test/g10 1"]),
        ):
            rows = rows_of((await visit.get(f"run/run{query}")).text)
            assert [" ".join(row.split()[2:4] if row.split()[0] in "✓✗●" else row.split()) for row in rows] == order


async def test_a_filter_says_that_no_figure_follows_it_and_the_tab_counts_what_to_review(tmp_path: Path) -> None:
    made = [record(f"g1-{s}", score=Score(reward=float(s > 0), passed=s > 0)) for s in range(4)]
    await write(tmp_path / "run", made)
    async with served(tmp_path / "run") as visit:
        whole = words((await visit.get("run/run")).text)
        assert "of the whole run" not in whole
        assert "Review 1" in whole, "before anybody opened the queue"
        narrowed = words((await visit.get("run/run?filter=passed")).text)
        assert "3 of 4 rollouts are listed; the figures and charts above are of the whole run." in narrowed
        assert "sometimes solved 1" in words((await visit.get("run/run?review=yes")).text)


async def test_a_wrong_filter_says_where_and_what_was_meant_and_shows_all(tmp_path: Path) -> None:
    await write(tmp_path / "run", [record("g1-0"), record("g1-1")])
    async with served(tmp_path / "run") as visit:
        answer = await visit.get("run/run?filter=turns+%3E+1+and+rewrd+%3C+1")
        assert answer.status_code == 200
        text = unescape(answer.text)
        assert "no column is named 'rewrd'; did you mean 'reward'? (at column 15)" in text
        assert f"turns > 1 and rewrd < 1\n{' ' * 14}^" in text
        assert 'aria-invalid="true"' in answer.text
        assert len(rows_of(answer.text)) == 2
        assert "did you mean" in unescape((await visit.get("run/run?sort=rewards")).text)


async def test_rows_come_in_pages_and_as_a_part_for_the_script(tmp_path: Path) -> None:
    await write(tmp_path / "run", [record(f"g{n}-0") for n in range(250)])
    async with served(tmp_path / "run") as visit:
        page = (await visit.get("run/run?offset=120")).text
        assert "101–200 of 250" in words(page)
        assert len(rows_of(page)) == 100
        part = (await visit.get("run/run/rows?offset=200&limit=999")).text
        assert 'data-total="250" data-first="200"' in part
        assert len(rows_of(part)) == 50
        assert rows_of((await visit.get("run/run/rows?offset=99999")).text) == []
        assert (await visit.get("run/run?offset=-3&limit=x")).status_code == 200


async def test_a_rollouts_page_has_its_conversation_neighbours_samples_and_attempts(tmp_path: Path) -> None:
    made = [
        record("g1-0"),
        record("g1-1", 0, Outcome.MODEL_FAILED),
        record("g1-1", 1, score=Score(reward=0.5, components={"tests": Component(value=0.5)})),
        record("g2-0"),
    ]
    await write(tmp_path / "run", made)
    async with served(tmp_path / "run") as visit:
        page = (await visit.get("run/run/rollout/g1-1")).text
        text = words(page)
        assert "test/g1, sample 1, attempt 1 (g1-1)" in text
        assert "◐ partly solved reward 0.500" in text
        assert "tests 0.500 × 1" in text
        assert 'id="turn-1"' in page and 'href="#turn-2"' in page
        assert "attempt 0" in text and "attempt 1, counts" in text
        assert re.search(r'href="[^"]*/rollout/g1-0[^"]*" rel="prev"', page), "the list is by task and sample"
        assert re.search(r'href="[^"]*/rollout/g2-0[^"]*" rel="next"', page)
        assert text.count("tests 0.500 × 1") == 1 and "Components of the reward" not in text
        earlier = words((await visit.get("run/run/rollout/g1-1?attempt=0")).text)
        assert "infrastructure fault no reward" in earlier
        whole = json.loads((await visit.get("run/run/rollout/g1-1?attempt=1&form=json")).text)
        assert (whole["rollout_id"], whole["attempt"]) == ("g1-1", 1)
        assert (await visit.get("run/run/rollout/g1-1?attempt=7")).status_code == 404
        among = (await visit.get("run/run/rollout/g1-0?filter=reward+%3D%3D+1")).text
        assert "1 of 2" in words(among)


async def test_a_task_has_its_samples_and_the_tasks_that_tell_most_come_first(tmp_path: Path) -> None:
    mixed = [record(f"g2-{s}", score=Score(reward=float(s % 2), passed=s % 2 == 1)) for s in range(4)]
    await write(tmp_path / "run", [*(record(f"g1-{s}") for s in range(4)), *mixed])
    async with served(tmp_path / "run") as visit:
        tasks = words((await visit.get("run/run/tasks")).text)
        assert tasks.index("test/g2 4/4 2 (50.0%) 0.500 0.577") < tasks.index("test/g1 4/4 4 (100.0%) 1.000 0.000")
        task = (await visit.get("run/run/task/g2")).text
        assert "mean reward 0.500" in words(task)
        assert len(rows_of(task)) == 4
        assert words(task).count("1 + 2?") == 1, "what is asked is said once"
        assert (await visit.get("run/run/task/none")).status_code == 404


async def test_two_runs_are_compared_and_a_task_of_theirs_side_by_side(tmp_path: Path) -> None:
    better, worse = await finished_run(tmp_path / "better"), await worse_run(tmp_path / "worse")
    async with served(better, worse) as visit:
        assert visit.server.address.startswith(f"{visit.base}compare?run=better&run=worse&token=")
        page = (await visit.get("compare?run=better&run=worse")).text
        assert "On 24 common tasks" in words(page)
        assert "better · openai/small" in words(page) and "worse · openai/small" in words(page)
        assert "verdict task better worse difference" in words(page)
        same = re.search(r"= same (\d+)", words(page))
        assert same and len(re.findall(r"<td><span[^>]*>= same", page)) == int(same[1]) > 0
        address = re.search(r'href="([^"]*compare[^"]*task=[^"]*)"', page)
        assert address is not None
        both = (await visit.get(unescape(address[1]).removeprefix(visit.server.guard.place))).text
        assert both.count('class="side"') == 2
        ids = re.findall(r' id="([^"]*)"', both)
        assert len(ids) == len(set(ids))
        alone = await visit.get("compare?run=better")
        assert (alone.status_code, "two runs or more" in alone.text) == (400, True)


async def test_media_are_what_their_bytes_are(tmp_path: Path) -> None:
    script = b"<script>alert(1)</script>"
    pictures = {digest_of(PICTURE): PICTURE, digest_of(script): script}
    said = Message(role="user", content=tuple(Media(digest=each, mime_type="text/html") for each in pictures))
    turn = Turn(index=0, messages=(said,), response=Message(role="assistant", content="a"))
    kept = Artifact(name="page.html", digest=digest_of(script), bytes=len(script))
    async with open_writer(tmp_path / "run", resolved=RESOLVED, given="", resume=False) as writer:
        await writer.add(record("g1-0", turns=(turn,), artifacts=(kept,)), pictures)
    async with served(tmp_path / "run") as visit:
        picture = await visit.get(f"run/run/media/{digest_of(PICTURE)}")
        assert (picture.headers["content-type"], picture.content) == ("image/png", PICTURE)
        other = await visit.get(f"run/run/media/{digest_of(script)}")
        assert other.headers["content-type"] == "application/octet-stream"
        assert other.headers["content-disposition"] == "attachment"
        assert other.headers["x-content-type-options"] == "nosniff"
        for wrong in ("sha256:0", "sha256:" + "0" * 64, "..%2F..%2Frun.db", "x" * 4000):
            assert (await visit.get(f"run/run/media/{wrong}")).status_code == 404


async def test_runs_of_one_name_are_told_apart_and_a_run_id_leads_to_its_run(tmp_path: Path) -> None:
    await finished_run(tmp_path / "one" / "run")
    await write(tmp_path / "two" / "run", [record("g1-0")])
    async with served(roots=(tmp_path / "one", tmp_path / "two")) as visit:
        names = set(re.findall(r'name="run" value="([^"]*)"', (await visit.get("")).text))
        assert len(names) == 2 and "run" in names
        counts = {re.findall(r"([\d,]+) of ", words((await visit.get(f"run/{name}")).text))[0] for name in names}
        assert len(counts) == 2
        assert (await visit.get("run/20260921T141320-0123abcd")).status_code == 200


async def test_a_run_that_is_gone_or_damaged_is_said_to_be(tmp_path: Path) -> None:
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "run.db").write_text("no database")
    async with served(tmp_path / "damaged") as visit:
        for path, status in (("run/damaged", 404), ("run/nothing", 404), ("run/nothing/rows", 404), ("nowhere", 404)):
            assert (await visit.get(path)).status_code == status
        assert "did you mean 'damaged'" in unescape((await visit.get("run/damagd")).text)


async def test_trained_tokens_are_underlined_by_the_advantage_within_their_group(tmp_path: Path) -> None:
    rewards = {"g1-0": 1.0, "g1-1": 0.0, "g1-2": 0.5, "g2-0": 1.0, "g2-1": 1.0, "g3-0": 1.0, "g4-0": 1.0, "g4-1": 0.0}
    made = [
        record(
            name,
            score=Score(reward=reward, passed=reward == 1),
            turns=(sampled(),),
            trainable=not name.startswith("g4"),
            trainable_reason="a token is missing" if name.startswith("g4") else None,
        )
        for name, reward in rewards.items()
    ]
    unscored = record("g1-3", outcome=Outcome.MODEL_FAILED, turns=(sampled(),))
    await write(tmp_path / "run", [*made, unscored])
    async with served(tmp_path / "run") as visit:

        async def heat(rollout: str) -> tuple[str, str | None]:
            page = (await visit.get(f"run/run/rollout/{rollout}")).text
            (found,) = re.findall(r'<div class="(heat[^"]*)">', page)
            told = re.search(r"advantage ([-+][\d.]+)", page)
            return found, told and told[1]

        assert await heat("g1-0") == ("heat raised", "+0.500")
        assert await heat("g1-1") == ("heat lowered", "-0.500")
        assert await heat("g1-2") == ("heat", "+0.000")
        assert await heat("g2-0") == ("heat", "+0.000")
        assert await heat("g3-0") == ("heat", None), "a group of one has no advantage"
        assert await heat("g4-0") == ("heat", None), "no trainer gets it"


async def test_a_long_rollout_has_its_first_tokens_and_a_link_to_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollout_content, "FIRST_TOKENS", 3)
    await write(tmp_path / "run", [record("g1-0", turns=(sampled(),)), record("g2-0")])
    async with served(tmp_path / "run") as visit:
        page = (await visit.get("run/run/rollout/g1-0?filter=passed")).text
        assert page.count('title="token ') == 3 and "1 more token" in page
        link = re.search(r'href="([^"]*)">Show all 4 tokens<', page)
        assert link is not None
        whole = (await visit.get(unescape(link[1]).removeprefix(visit.server.guard.place))).text
        assert whole.count('title="token ') == 4 and "Show all" not in whole
        assert "1 of 2" in words(whole) or "2 of 2" in words(whole), "the list that it was opened from is kept"


async def test_a_comparison_follows_what_is_added_to_a_run(tmp_path: Path) -> None:
    for name in ("one", "two"):
        await write(tmp_path / name, [record(f"g{n}-0") for n in range(3)])
    path = "compare?run=one&run=two"
    async with served(tmp_path / "one", tmp_path / "two", roots=(tmp_path,)) as visit:
        assert "On 3 common tasks" in words((await visit.get(path)).text)
        assert "On 3 common tasks" in words((await visit.get(path)).text)
    for name in ("one", "two"):
        await write(tmp_path / name, [record("g7-0")], resume=True)
    async with served(tmp_path / "one", tmp_path / "two", roots=(tmp_path,)) as visit:
        assert "On 4 common tasks" in words((await visit.get(path)).text)
        for name in ("one", "two"):
            await write(tmp_path / name, [record("g8-0")], resume=True)
        with anyio.fail_after(30):
            while "On 5 common tasks" not in words((await visit.get(path)).text):
                await anyio.lowlevel.checkpoint()
