"""The leaderboard of `hub view`: who is compared with whom, and what is known of each receipt."""

import re
import shutil
from pathlib import Path

import pytest

from rollouthub import Score
from rollouthub.errors import RunDirectoryError
from rollouthub.views.report.redacted_text import Plainness
from rollouthub.views.web import kept_boards
from rollouthub.views.web.bundle import write_bundle
from rollouthub.views.web.view_server import ViewOptions, ViewServer
from tests.registry.receipt.runs import change, play, receipt_of
from tests.store.records import record, write
from tests.tui.made import finished_run, hostile_run, worse_run

from .conftest import served
from .test_bundle import AS_IT_IS, links_of
from .test_pages import words


@pytest.fixture(scope="module")
def attested(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run that a hub played, and the receipt beside it; nobody changes it."""
    folder = tmp_path_factory.mktemp("attested")
    receipt = receipt_of(play(folder / "sums", limit=3))
    (folder / "sums.receipt.json").write_bytes(receipt)
    return folder


def lines_of(html: str) -> list[str]:
    """The text of each row of the leaderboards."""
    tables = re.findall(r'<table class="board">.*?<tbody>(.*?)</tbody>', html, re.DOTALL)
    return [words(row.partition(">")[2]) for table in tables for row in table.split("<tr")[1:]]


async def test_mean_reward_and_pass_rate_have_one_weighting_and_empty_columns_are_left_out(tmp_path: Path) -> None:
    scored = [("g1-0", 1.0), ("g2-0", 0.0), ("g2-1", 0.0), ("g2-2", 0.0)]
    made = [record(each, score=Score(reward=reward, passed=reward == 1)) for each, reward in scored]
    await write(tmp_path / "run", made)
    async with served(roots=(tmp_path,)) as visit:
        page = (await visit.get("board")).text
        (line,) = lines_of(page)
        assert "0.250" in line and "25.0%" in line and "50.0%" not in line
        assert "over scored rollouts; their 95 % intervals are over tasks" in words(page)
        assert re.findall(r'<th scope="col" class="c-(\w+)', page).count("receipt") == 0


async def test_rows_are_ranked_among_those_that_played_the_same_tasks(tmp_path: Path) -> None:
    for name, passed in (("low", "0001"), ("high", "0111"), ("other", "11111")):
        made = [record(f"g{n}-0", score=Score(reward=float(p), passed=p == "1")) for n, p in enumerate(passed)]
        await write(tmp_path / "runs" / name, made)
    async with served(roots=(tmp_path / "runs",)) as visit:
        assert 'board">Leaderboard</a>' in (await visit.get("")).text
        page = (await visit.get("board")).text
        four = [line for line in lines_of(page) if "5 of" not in line]
        assert [re.findall(r"low|high", line) for line in four] == [["high"], ["low"]]
        assert four[0].startswith("1 ") and "0.750 (" in four[0] and "75.0% (" in four[0], four
        assert page.count('class="board"') == 2, "another set of tasks has a table of its own"
        assert re.search(r'<a href="[^"]*/run/high">high</a>', page)
        named = (await visit.get("board?run=low")).text
        assert len(lines_of(named)) == 1
        assert (await visit.get("board?run=none")).status_code == 404


def test_the_leaderboard_is_the_first_page_where_it_is_asked_for(tmp_path: Path) -> None:
    def first(*runs: Path) -> str:
        options = ViewOptions(runs, (tmp_path,), {}, Plainness(str), has_board=True)
        server = ViewServer(options, 1)
        return server.address.removeprefix(server.guard.origin + server.guard.place).partition("token=")[0]

    assert first() == "board?"
    assert first(tmp_path / "a", tmp_path / "b") == "board?run=a&run=b&"


async def test_a_receipt_is_unchecked_until_it_is_looked_at_and_whenever_the_run_changed(
    attested: Path, tmp_path: Path
) -> None:
    runs = Path(shutil.copytree(attested, tmp_path / "runs"))
    await write(runs / "bare", [record("g1-0")])
    async with served(roots=(runs,)) as visit:
        (mine,) = [line for line in lines_of((await visit.get("board")).text) if "sums" in line]
        assert "unchecked receipt" in mine
        (bare,) = [line for line in lines_of((await visit.get("board")).text) if "bare" in line]
        assert re.search(r"none \d{4}-", bare), bare
        receipt = words((await visit.get("run/sums/receipt")).text)
        assert "✓ not refuted" in receipt and "✓ proven root" in receipt and "signed by key" in receipt
        assert "✓ not refuted receipt" in lines_of((await visit.get("board?run=sums")).text)[0]
        missing = await visit.get("run/bare/receipt")
        assert (missing.status_code, "hub attest RUN" in missing.text) == (404, True)
        change(runs / "sums", "UPDATE rollouts SET reward = 0.5, body = json_set(body, '$.score.reward', 0.5)")
        assert "unchecked receipt" in lines_of((await visit.get("board?run=sums")).text)[0]
        refuted = words((await visit.get("run/sums/receipt")).text)
        assert "✗ refuted , signed" in refuted and "✗ refuted root" in refuted
        assert "✗ refuted receipt" in lines_of((await visit.get("board?run=sums")).text)[0]
        (runs / "sums.receipt.json").write_text("<script>alert(1)</script>")
        rude = (await visit.get("run/sums/receipt")).text
        assert "✗ refuted signature" in words(rude) and "<script>alert" not in rude


async def test_a_run_that_is_damaged_is_named_and_text_of_strangers_is_text(tmp_path: Path) -> None:
    await hostile_run(tmp_path / "runs" / "rude")
    await write(tmp_path / "runs" / "good", [record("g1-0")])
    async with served(roots=(tmp_path / "runs",)) as visit:
        page = (await visit.get("board")).text
        assert len(lines_of(page)) == 2
        assert "<script>document" not in page and "onerror=alert(2)>" not in page
        (tmp_path / "runs" / "good" / "run.db").write_text("no database")
        page = (await visit.get("board?run=good&run=rude")).text
        assert "good: " in words(page) and len(lines_of(page)) == 1


async def test_many_runs_are_read_over_several_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_boards, "_READ_SECONDS", -1.0)
    for name in ("one", "two", "three"):
        await write(tmp_path / "runs" / name, [record("g1-0")])
    async with served(roots=(tmp_path / "runs",)) as visit:
        for rows, told in ((0, "3 runs still"), (0, "3 runs still")):
            page = (await visit.get("board")).text
            assert (len(lines_of(page)), told in words(page)) == (rows, True)
            assert '<meta http-equiv="refresh" content="1">' in page
        monkeypatch.undo()
        page = (await visit.get("board")).text
        assert len(lines_of(page)) == 3 and "http-equiv" not in page


async def test_a_bundle_has_the_leaderboard_and_verified_receipts(attested: Path, tmp_path: Path) -> None:
    good = [await finished_run(tmp_path / "good"), await worse_run(tmp_path / "worse")]
    write_bundle([*good, attested / "sums"], tmp_path / "pages", "sample == 0", AS_IT_IS, has_board=True)
    board = tmp_path / "pages" / "board.html"
    assert board.resolve() in links_of(tmp_path / "pages" / "index.html")
    assert all(link.is_file() for link in links_of(board))
    assert len([line for line in lines_of(board.read_text()) if "✓ not refuted receipt" in line]) == 1
    copied = tmp_path / "pages" / "run" / "sums" / "receipt.json"
    assert copied.read_bytes() == (attested / "sums.receipt.json").read_bytes()
    write_bundle(good, tmp_path / "without", "", AS_IT_IS)
    assert not (tmp_path / "without" / "board.html").exists()
    assert "Leaderboard" not in (tmp_path / "without" / "index.html").read_text()


async def test_a_receipt_that_is_a_link_is_not_copied_into_a_bundle(tmp_path: Path) -> None:
    run = await finished_run(tmp_path / "good")
    (tmp_path / "own").write_text("of this user")
    (tmp_path / "good.receipt.json").symlink_to(tmp_path / "own")
    with pytest.raises(RunDirectoryError, match=r"good\.receipt\.json is not copied \(it is a link\)"):
        write_bundle([run], tmp_path / "pages", "", AS_IT_IS, has_board=True)
    assert not (tmp_path / "pages").exists()
