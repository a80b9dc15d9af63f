"""Notes and the queue of reviews on the pages of `hub view`: written by forms, shown harmless, bounded and guarded."""

import re
from collections.abc import Mapping
from html import unescape
from pathlib import Path

import pytest
from pydantic import JsonValue

from rollouthub import Outcome, Score
from rollouthub.store import open_writer
from rollouthub.store.notes import MOST_COMMENTS, NoteChange, RunNotes, add, user_name
from rollouthub.store.run_facts import READ_FROM
from rollouthub.views.report.redacted_text import Plainness
from rollouthub.views.web.bundle import write_bundle
from tests.store.conftest import small_disk
from tests.store.processes import make_read_only
from tests.store.records import RESOLVED, record, write
from tests.views.report.played import HOSTILE

from .conftest import Visit, served
from .test_pages import rows_of, words

__all__ = ["small_disk"]

FORM = re.compile(r"<form ([^>]*)>(.*?)</form>", re.DOTALL)
NOTE = "run/run/note?rollout=g3-0&attempt=0"


@pytest.fixture
async def run(tmp_path: Path) -> Path:
    """Three samples of a task of which one passes, a suspect one, and one that nobody need look at."""
    scores = {"g1-0": True, "g1-1": False, "g1-2": False, "g3-0": True}
    made = [record(name, score=Score(reward=float(passed), passed=passed)) for name, passed in scores.items()]
    suspect = Score(reward=1.0, passed=True, suspect="it replaced the tool")
    await write(tmp_path / "run", [*made, record("g2-0", score=suspect)])
    return tmp_path / "run"


def form_with(page: str, do: str) -> tuple[str, dict[str, str]]:
    """The address of the form with a button, and what a browser without script sends when the button is pressed."""
    for attributes, inner in FORM.findall(page):
        if f'value="{do}"' in inner:
            fields = {
                unescape(name): unescape(value)
                for name, value in re.findall(r'<input[^>]* name="([^"]*)"[^>]*? value="([^"]*)"', inner)
            }
            action = re.search(r'action="([^"]*)"', attributes)
            assert action is not None
            assert 'method="post"' in attributes
            return unescape(action[1]), {**fields, "do": do}
    raise AssertionError(f"no form does {do}")


async def press(visit: Visit, page: str, do: str, **filled: str) -> str:
    """Press a button of a page as a browser does; returns the page that it leads to."""
    address, fields = form_with(page, do)
    place = visit.server.guard.place
    answer = await visit.post(address.removeprefix(place), {**fields, **filled})
    assert answer.status_code == 303, words(answer.text)
    return answer.headers["location"].removeprefix(place)


async def shown(visit: Visit, path: str) -> str:
    """A page of the server."""
    answer = await visit.get(path.partition("#")[0])
    assert answer.status_code == 200, words(answer.text)
    return answer.text


async def test_a_rollout_and_a_turn_are_noted_by_forms_that_need_no_script(run: Path) -> None:
    async with served(run) as visit:
        page = await shown(visit, "run/run/rollout/g3-0?filter=passed")
        to = await press(visit, page, "star")
        assert to == "run/run/rollout/g3-0?filter=passed#notes"
        await press(visit, await shown(visit, to), "tags", text="odd, reward hack")
        page = await shown(visit, to)
        assert 'value="odd, reward hack"' in page
        add(run, NoteChange("g3-0", tags=("of another",)), by="anna")
        await press(visit, page, "tags", text="odd")
        await press(visit, page, "comment", text="line one\r\n<b>line two")
        page = await shown(visit, to)
        assert "★ starred tags: odd, of another" in words(page)
        assert f"{user_name()}, " in page and ": line one\n  &lt;b&gt;line two</div>" in page
        await press(visit, page, "unstar")

        turn = re.search(r'href="[^"]*/(run/run/note[^"]*turn=2[^"]*)"', page)
        assert turn is not None
        asks = await shown(visit, unescape(turn[1]))
        assert "Notes on turn 2 of test/g3" in words(asks)
        to = await press(visit, asks, "comment", text="here it went wrong")
        assert to.endswith("?filter=passed#turn-2")
        page = await shown(visit, to)
        assert "here it went wrong" in page.partition('id="turn-2"')[2]
        assert "here it went wrong" not in page.partition('id="turn-2"')[0]
    notes = RunNotes.read(run).of("g3-0")
    assert (notes.is_starred, notes.tags) == (False, ("odd", "of another"))
    assert [each.text for each in notes.comments] == ["line one\n<b>line two"]
    assert [each.text for each in notes.of_turn(2).comments] == ["here it went wrong"]


async def test_the_table_shows_notes_where_there_are_any_and_filters_find_them(run: Path) -> None:
    async with served(run) as visit:
        page = await shown(visit, "run/run")
        assert "notes" not in words(page.partition("<thead>")[2].partition("</thead>")[0])
    add(run, NoteChange("g1-1", tags=("reward hack",), star=True, comment="look"))
    async with served(run) as visit:
        found = await shown(visit, "run/run?filter=tag+~+%22hack%22+and+starred")
        (row,) = rows_of(found)
        assert "★ reward hack 1 comment" in row
        assert "Starred 1" in words(found)
        assert rows_of(await shown(visit, "run/run?filter=reviewed")) == []
        await press(visit, await shown(visit, "run/run/rollout/g1-1"), "reviewed")
        assert len(rows_of(await shown(visit, "run/run?filter=reviewed"))) == 1
        assert "★ ✓ reward hack" in rows_of(await shown(visit, "run/run?sort=tag"))[0]


@pytest.mark.parametrize(
    ("form", "said", "status"),
    [
        ({"do": "tags", "text": "x" * 65}, "a tag has 1 to 64 characters, not 65", 400),
        ({"do": "tags", "text": ", ".join(map(str, range(40)))}, "32 tags at most, not 40", 400),
        ({"do": "comment", "text": " \r\n "}, "a comment needs some text", 400),
        ({"do": "comment", "text": "y" * 10_001}, "a comment has 10,000 characters at most, not 10,001", 400),
        ({"do": "comment", "text": "z" * 140_000}, "a form has at most 131,072 bytes", 400),
        ({"do": "explode"}, "no note is named 'explode'", 400),
        ({str(n): "" for n in range(9)}, "a form has at most 8 fields", 400),
        ({}, "no note is named ''", 400),
    ],
)
async def test_what_is_no_note_is_refused_and_writes_nothing(
    run: Path, form: Mapping[str, str], said: str, status: int
) -> None:
    async with served(run) as visit:
        answer = await visit.post(NOTE, {"key": visit.server.guard.form_key, **form})
        assert (answer.status_code, said in unescape(answer.text)) == (status, True), words(answer.text)
        if form.get("do") == "comment" and "y" in form["text"]:
            assert form["text"] in answer.text, "what was written is not lost"
    assert RunNotes.read(run).version == 0


async def test_what_is_not_there_cannot_be_noted(run: Path) -> None:
    async with served(run) as visit:
        form = {"key": visit.server.guard.form_key, "do": "star"}
        for path in (
            "run/run/note?rollout=none",
            "run/run/note?rollout=g3-0&attempt=7",
            "run/run/note?rollout=g3-0&turn=0",
            "run/run/note?rollout=g3-0&turn=99",
            "run/none/note?rollout=g3-0",
            f"run/run/note?rollout={HOSTILE[:300]}",
        ):
            for answer in (await visit.get(path), await visit.post(path, form)):
                assert answer.status_code == 404, path
                assert "<script>" not in answer.text
        assert (await visit.post("run/run/note", form)).status_code == 400
    assert RunNotes.read(run).version == 0


async def test_only_a_form_of_these_pages_writes_a_note(run: Path) -> None:
    async with served(run) as visit:
        guard = visit.server.guard
        form = {"key": guard.form_key, "do": "star"}
        for wrong in ({}, {"key": ""}, {"key": guard.form_key[:-1]}, {"key": guard.token}):
            assert (await visit.post(NOTE, {"do": "star", **wrong})).status_code == 403
        for origin in ("http://evil.example", "null", guard.origin.replace("http:", "https:")):
            assert (await visit.post(NOTE, form, {"Origin": origin})).status_code == 403
        without = await visit.client.post(visit.base + NOTE, data=form, headers=visit.key)
        assert without.status_code == 403, "no origin"
        for headers in ({}, {"Cookie": f"{guard.cookie}=wrong"}):
            stranger = await visit.client.post(
                f"{visit.base}{NOTE}&token={guard.token}", data=form, headers={"Origin": guard.origin, **headers}
            )
            assert stranger.status_code == 401
        assert (await visit.get(f"{NOTE}&do=star&key={guard.form_key}")).status_code == 200
        assert RunNotes.read(run).version == 0
        elsewhere = await visit.post(f"{NOTE}&filter=//evil.example&search=%0d%0aX:1", form)
        assert elsewhere.status_code == 303
        assert elsewhere.headers["location"].startswith(f"{guard.place}run/run/rollout/g3-0?filter=%2F%2Fevil")


async def test_notes_of_strangers_are_harmless_and_bounded(run: Path) -> None:
    rude = "<script>alert(1)</script>\x1b[31m\u202e</textarea>" + "&" * 5000
    changes = [NoteChange("g3-0", comment=f"{n} {rude}") for n in range(MOST_COMMENTS)]
    tags = ('"><img src=x onerror=alert(2)>', "a,b", "</input>")
    add(run, *changes, NoteChange("g3-0", tags=tags), by="<svg onload=alert(3)>")
    turns = [NoteChange("g3-0", turn=n, comment="~" * 9000) for n in (1, 2) for _ in range(MOST_COMMENTS)]
    add(run, *turns, by="anna")
    with (run / "notes.jsonl").open("ab") as file:
        file.write(b'{"no": "note"}\n' + b"[" * 100_000 + b"\n")
    async with served(run) as visit:
        for path in ("run/run", "run/run/rollout/g3-0", NOTE, f"{NOTE}&turn=1"):
            page = await shown(visit, path)
            for evil in ("<script>alert", "<img src=x", "<svg onload", "</input>"):
                assert evil not in page, (path, evil)
            assert not re.search("[\x1b\u202e]", page)
            assert len(page) < 1_500_000
        page = await shown(visit, "run/run/rollout/g3-0")
        assert page.count("alert(1)") == 20 and "180 earlier comments: `hub note` shows all" in page
        assert "2 lines of notes.jsonl are no notes, and left out" in page
        before = RunNotes.read(run).of("g3-0").tags
        await press(visit, page, "star")
        await press(visit, page, "tags", text="more, " + form_with_value(page, "tags"))
    assert RunNotes.read(run).of("g3-0").tags == (*before, "more")


def form_with_value(page: str, name: str) -> str:
    """What a field holds."""
    found = re.search(rf'id="{name}" value="([^"]*)"', page)
    assert found is not None
    return unescape(found[1])


async def test_a_run_that_cannot_be_written_says_why_in_place_of_forms(small_disk: Path) -> None:
    await write(small_disk / "run", [record("g3-0")])
    add(small_disk / "run", NoteChange("g3-0", tags=("odd",)))
    async with served(small_disk / "run") as visit:
        page = await shown(visit, "run/run/rollout/g3-0")
        address, fields = form_with(page, "star")
        make_read_only(small_disk)
        page = await shown(visit, "run/run/rollout/g3-0")
        assert "tags: odd" in page and "<textarea" not in page and 'value="star"' not in page
        assert "the note cannot be written to" in page and "copy the run to one of yours" in page
        refused = await visit.post(address.removeprefix(visit.server.guard.place), fields)
        assert (refused.status_code, "cannot be written" in refused.text) == (409, True)


async def test_notes_on_another_tools_run_are_said_to_go_with_its_copy(tmp_path: Path) -> None:
    source: dict[str, JsonValue] = {
        "format": "chat",
        "path": "/logs/<b>chat.jsonl",
        "tool": "a tool",
        "totals": {},
        "missing": [],
    }
    async with open_writer(
        tmp_path / "run", resolved={**RESOLVED, READ_FROM: source}, given="", resume=False
    ) as writer:
        await writer.add(record("g3-0"))
    async with served(tmp_path / "run") as visit:
        assert "Read from chat files of a tool, not played here: /logs/&lt;b&gt;chat.jsonl" in await shown(
            visit, "run/run"
        )
        page = await shown(visit, "run/run/rollout/g3-0")
        assert "notes are kept with the copy in the cache and go with it" in page
        await press(visit, page, "star")
    assert RunNotes.read(tmp_path / "run").of("g3-0").is_starred


async def test_a_bundle_has_the_notes_and_the_queue_and_no_forms(run: Path, tmp_path: Path) -> None:
    add(run, NoteChange("g2-0", comment="<b>why", tags=("odd",)), NoteChange("g2-0", turn=1, star=True), by="anna")
    write_bundle([run], tmp_path / "pages", "not passed", Plainness(lambda text: text))
    folder = tmp_path / "pages" / "run" / "run"
    queue = (folder / "review.html").read_text()
    assert "2 of 2 left to review" in queue and rows_of(queue) == [], "the filter leaves out what needs a review"
    write_bundle([run], tmp_path / "all", "", Plainness(lambda text: text))
    folder = tmp_path / "all" / "run" / "run"
    page, queue = (folder / "rollout" / "g2-0.html").read_text(), (folder / "review.html").read_text()
    assert "tags: odd" in page and "&lt;b&gt;why" in page and "★ starred" in page.partition('id="turn-1"')[2]
    assert [("suspect score" in row, "sometimes solved" in row) for row in rows_of(queue)] == [
        (True, False),
        (False, True),
    ]
    for html in (page, queue):
        assert "<form" not in html.replace('<form method="dialog">', "")
        assert "note?" not in html


async def test_the_queue_has_the_reasons_and_is_worked_through_by_links(run: Path) -> None:
    async with served(run) as visit:
        queue = await shown(visit, "run/run?review=yes")
        assert "2 of 2 left to review" in words(queue)
        first, second = rows_of(queue)
        assert "suspect score" in first and "sometimes solved" in second
        assert [each for each in rows_of(await shown(visit, "run/run/rows?review=yes")) if "suspect" in each]
        page = await shown(visit, "run/run/rollout/g2-0?review=yes")
        assert "1 of 2 left to review" in words(page) and "To review: suspect score" in words(page)
        assert re.search(r'href="[^"]*/rollout/g1-0\?review=yes" rel="next"', page)
        assert re.search(r'href="[^"]*/run/run\?review=yes">review</a>', page)
        onward = await press(visit, page, "reviewed")
        assert onward == "run/run/rollout/g1-0?review=yes"
        page = await shown(visit, onward)
        assert "1 of 1 left to review" in words(page)
        assert await press(visit, page, "reviewed") == "run/run?review=yes"
        assert "Nothing is left to review: 2 rollouts had a reason." in words(await shown(visit, "run/run?review=yes"))
        again = await shown(visit, "run/run/rollout/g1-0")
        await press(visit, again, "unreviewed")
        assert "1 of 2 left to review" in words(await shown(visit, "run/run?review=yes"))
    assert RunNotes.read(run).of("g2-0").is_reviewed


async def test_each_tag_is_a_quick_filter_with_its_number(run: Path) -> None:
    tags = ("odd", 'reward "hack" & <b>', "a\\b")
    add(run, NoteChange("g1-0", tags=tags), NoteChange("g2-0", tags=("odd",)), by="anna")
    async with served(run) as visit:
        page = await shown(visit, "run/run")
        links = re.findall(r'href="[^"]*/(run/run\?filter=tag[^"]*)"[^>]*>#(.*?) <span[^>]*>(\d+)<', page)
        assert [(unescape(name), count) for _, name, count in links] == [
            ("odd", "2"),
            *((each, "1") for each in tags[1:]),
        ]
        for path, _, count in links:
            assert len(rows_of(await shown(visit, unescape(path)))) == int(count)


async def test_the_queue_has_a_link_for_each_reason_and_stays_with_it(run: Path) -> None:
    async with served(run) as visit:
        queue = await shown(visit, "run/run?review=yes&filter=turns+%3E+-1")
        linked = re.findall(r'href="[^"]*/(run/run\?[^"]*review=yes[^"]*)"[^>]*>([^<]*)<span[^>]*>(\d+)<', queue)
        links = {why.strip(): (path.replace("&amp;", "&"), count) for path, why, count in linked if why}
        assert {why: count for why, (_, count) in links.items() if why != "Review"} == {
            "Any reason": "2",
            "suspect score": "1",
            "sometimes solved": "1",
        }
        path = links["sometimes solved"][0]
        assert path == "run/run?filter=turns+%3E+-1&review=yes&reason=sometimes+solved"
        page = await shown(visit, path)
        (row,) = rows_of(page)
        assert "sometimes solved" in row
        assert re.search(r'aria-current="true">sometimes solved <', page)
        assert 'name="reason" value="sometimes solved"' in page, "a filter stays with it"
        assert len(rows_of(await shown(visit, path.replace("?", "/rows?")))) == 1
        rollout = await shown(visit, "run/run/rollout/g1-0?review=yes&reason=sometimes+solved")
        assert "1 of 1 left to review" in words(rollout)
        assert await press(visit, rollout, "reviewed") == "run/run?review=yes&reason=sometimes+solved"
        assert "none is left for this reason" in words(await shown(visit, path))
        hostile = await shown(visit, "run/run?review=yes&reason=%3Cscript%3E")
        assert rows_of(hostile) == [] and "<script>" not in hostile


async def test_a_review_in_the_list_keeps_its_place_and_one_elsewhere_goes_on_in_its_list(run: Path) -> None:
    async with served(run) as visit:
        queue = await shown(visit, "run/run?review=yes&filter=passed")
        assert await press(visit, queue, "reviewed") == "run/run?filter=passed&review=yes#at-0"
        assert len(rows_of(await shown(visit, "run/run?review=yes&filter=passed"))) == 1
        page = await shown(visit, "run/run/rollout/g1-1?filter=not+passed")
        assert await press(visit, page, "reviewed") == "run/run/rollout/g1-2?filter=not+passed"
        page = await shown(visit, "run/run/rollout/g1-2?filter=not+passed")
        assert await press(visit, page, "reviewed") == "run/run?filter=not+passed"


async def test_a_replaced_attempt_has_notes_of_its_own(tmp_path: Path) -> None:
    await write(tmp_path / "run", [record("g1-0", 0, Outcome.MODEL_FAILED), record("g1-0", 1)])
    async with served(tmp_path / "run") as visit:
        page = await shown(visit, "run/run/rollout/g1-0?attempt=0")
        assert await press(visit, page, "star") == "run/run/rollout/g1-0?attempt=0#notes"
        assert "★ starred" not in await shown(visit, "run/run/rollout/g1-0")
    assert RunNotes.read(tmp_path / "run").of("g1-0", 0).is_starred
    assert not RunNotes.read(tmp_path / "run").of("g1-0", 1).is_starred
