"""The pages as files: complete, relative, and nothing in them that asks a server."""

import os
import re
from html import unescape
from pathlib import Path

import pytest

from rollouthub import Message, Score, Turn
from rollouthub.errors import StoreError, UsageError
from rollouthub.messages import Media, digest_of
from rollouthub.store import open_writer
from rollouthub.views.report.redacted_text import Plainness
from rollouthub.views.web import bundle
from rollouthub.views.web.bundle import write_bundle
from tests.store.records import RESOLVED, record, write
from tests.tui.episodes import PICTURE
from tests.tui.made import finished_run, hostile_run, worse_run

from .test_pages import rows_of, words

AS_IT_IS = Plainness(lambda text: text)


def links_of(file: Path) -> list[Path]:
    """The files that a page links to."""
    found = re.findall(r'href="([^"]*)"', file.read_text())
    addresses = [unescape(each).partition("#")[0] for each in found]
    return [(file.parent / each).resolve() for each in addresses if each and not each.startswith("data:")]


def names_in(folder: Path) -> list[str]:
    """What lies in a folder."""
    return sorted(each.name for each in folder.iterdir())


async def test_every_link_of_every_page_leads_to_a_file_of_the_bundle(tmp_path: Path) -> None:
    runs = [await finished_run(tmp_path / "good"), await worse_run(tmp_path / "worse")]
    said = write_bundle(runs, tmp_path / "pages", "", AS_IT_IS)
    assert said == "2 runs with 192 rollouts"
    pages = list((tmp_path / "pages").rglob("*.html"))
    assert len(pages) == 192 + 2 * 4 + 2
    for page in pages:
        html = page.read_text()
        for link in links_of(page):
            assert link.is_file(), (page, link)
        assert "<form" not in html.replace('<form method="dialog">', "")
        assert not re.search(r'(src|href)="(https?:|/|//)', html)
        assert html.count("Content-Security-Policy") == 1
    assert "compare.html" in (tmp_path / "pages" / "index.html").read_text()


async def test_a_filter_chooses_the_rollouts_and_large_tables_have_pages(tmp_path: Path) -> None:
    made = [record(f"g{n}-0", score=Score(reward=float(n % 2), passed=n % 2 == 1)) for n in range(260)]
    await write(tmp_path / "run", made)
    write_bundle([tmp_path / "run"], tmp_path / "pages", "not passed", AS_IT_IS)
    folder = tmp_path / "pages" / "run" / "run"
    assert len(list((folder / "rollout").iterdir())) == 130
    assert [len(rows_of((folder / name).read_text())) for name in ("index.html", "page-2.html")] == [100, 30]
    assert "101–130 of 130" in words((folder / "page-2.html").read_text())


async def test_a_rollout_is_one_file_with_its_pictures(tmp_path: Path) -> None:
    digest = digest_of(PICTURE)
    said = Message(role="user", content=(Media(digest=digest, mime_type="image/png"),))
    turn = Turn(index=0, messages=(said,), response=Message(role="assistant", content="a chart"))
    async with open_writer(tmp_path / "run", resolved=RESOLVED, given="", resume=False) as writer:
        await writer.add(record("g1-0", turns=(turn,)), {digest: PICTURE})
    write_bundle([tmp_path / "run"], tmp_path / "pages", "", AS_IT_IS)
    page = (tmp_path / "pages" / "run" / "run" / "rollout" / "g1-0.html").read_text()
    assert 'src="data:image/png;base64,' in page


async def test_rude_names_stay_inside_the_folder(tmp_path: Path) -> None:
    await hostile_run(tmp_path / "run")
    await write(tmp_path / "up", [record("../../../../up-0"), record("..-0")])
    write_bundle([tmp_path / "run", tmp_path / "up"], tmp_path / "out" / "pages", "", AS_IT_IS)
    assert [each.name for each in (tmp_path / "out").iterdir()] == ["pages"]
    for page in (tmp_path / "out").rglob("*.html"):
        assert "<script>alert" not in page.read_text()
        assert "onerror=alert(2)>" not in page.read_text()


async def test_a_run_whose_folder_is_named_by_no_text_is_written(tmp_path: Path) -> None:
    await write(tmp_path / "run", [record("g1-0")])
    rude = (tmp_path / "run").rename(os.fsdecode(bytes(tmp_path) + b"/b\xff"))
    write_bundle([rude], tmp_path / "pages", "", AS_IT_IS)
    [page] = (tmp_path / "pages" / "run").glob("*/rollout/g1-0.html")
    assert page in links_of(page.parent.parent / "index.html")


async def test_what_cannot_be_written_is_said_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await write(tmp_path / "run", [record("g1-0"), record("g1-1")])
    run, output = tmp_path / "run", tmp_path / "pages"
    with pytest.raises(UsageError, match="name the runs to write"):
        write_bundle([], output, "", AS_IT_IS)
    with pytest.raises(UsageError, match="no column is named 'rewrd'"):
        write_bundle([run], output, "rewrd < 1", AS_IT_IS)
    with pytest.raises(UsageError, match="two of the runs have one name"):
        write_bundle([run, run], output, "", AS_IT_IS)
    monkeypatch.setattr(bundle, "MOST_ROLLOUTS", 1)
    with pytest.raises(UsageError, match="choose some with --filter"):
        write_bundle([run], output, "", AS_IT_IS)
    monkeypatch.undo()
    (tmp_path / "file").write_text("")
    with pytest.raises((StoreError, UsageError)):
        write_bundle([run], tmp_path / "file" / "pages", "", AS_IT_IS)
    output.mkdir()
    (output / "mine.txt").write_text("mine")
    with pytest.raises(UsageError, match="is there and not empty"):
        write_bundle([run], output, "", AS_IT_IS)
    assert names_in(tmp_path) == ["file", "pages", "run"]
