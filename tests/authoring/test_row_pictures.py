"""Pictures of rows, wherever data sets keep them; and nothing outside of the data set's folder."""

import base64
import csv
import json
import os
from pathlib import Path
from typing import Any

import pytest

from rollouthub import BadRow, Media, Message, Text
from rollouthub.authoring.rows import Row, RowSource, illustrated, pictures_of
from rollouthub.errors import DataError
from rollouthub.hosting import InProcessHost
from rollouthub.messages import media_of
from rollouthub_servers.math import MathConfig, MathProblems
from tests.engine.picture_world import png

ONE, TWO = png(1), png(2)
URL = "data:image/png;base64," + base64.b64encode(ONE).decode()


def folder_of(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    (folder / "pictures").mkdir(parents=True)
    (folder / "one.png").write_bytes(ONE)
    (folder / "pictures" / "two.png").write_bytes(TWO)
    (tmp_path / "outside.png").write_bytes(png(9))
    return folder


def row(folder: Path | None, image: Any) -> Row:
    return Row({"image": image}, "rows.jsonl", 1, 0, folder)


def read(parts: tuple[Media, ...]) -> list[bytes | None]:
    return [part.read() for part in parts]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("one.png", [ONE]),
        ("pictures/two.png", [TWO]),
        ("pictures/../one.png", [ONE]),
        (["one.png", "pictures/two.png"], [ONE, TWO]),
        (URL, [ONE]),
        (base64.b64encode(ONE).decode(), [ONE]),
        (ONE, [ONE]),
        ({"bytes": TWO, "path": "one.png"}, [TWO]),
        ({"bytes": None, "path": "one.png"}, [ONE]),
        (None, []),
        ([], []),
    ],
)
def test_a_picture_may_be_a_path_bytes_base64_or_a_url(tmp_path: Path, value: Any, expected: list[bytes]) -> None:
    assert read(pictures_of(row(folder_of(tmp_path), value), None)) == expected


@pytest.mark.parametrize("shape", ["up", "absolute", "link", "directory", "device", "nothing", "words", "url", "null"])
def test_nothing_outside_of_the_folder_is_read(tmp_path: Path, shape: str) -> None:
    folder = folder_of(tmp_path)
    (folder / "link.png").symlink_to(tmp_path / "outside.png")
    os.mkfifo(folder / "pipe.png")
    names = {
        "up": "../outside.png",
        "absolute": str(tmp_path / "outside.png"),
        "link": "link.png",
        "directory": "pictures",
        "device": "pipe.png",
        "nothing": "none.png",
        "words": 7,
        "url": "http://127.0.0.1/a.png",
        "null": "one.png\0",
    }
    for value in (names[shape], {"bytes": None, "path": names[shape]}):
        with pytest.raises(DataError, match=r"outside of|there is no picture|is no picture"):
            pictures_of(row(folder, value), None)


def test_a_data_set_without_a_folder_names_no_files() -> None:
    with pytest.raises(DataError, match="has no folder"):
        pictures_of(row(None, "/etc/passwd"), None)


def test_a_column_that_is_named_must_be_there() -> None:
    with pytest.raises(DataError, match="missing column 'scan'"):
        pictures_of(row(None, None), "scan")


def test_pictures_stand_where_the_text_says_or_first(tmp_path: Path) -> None:
    here = row(None, None)
    one, two = Media.of(ONE), Media.of(TWO)
    (said,) = illustrated(here, "Is <image> like <image>?", [one, two])
    assert isinstance(said, Message)
    assert said.content == (Text(text="Is"), one, Text(text="like"), two, Text(text="?"))
    (said,) = illustrated(here, "Which?", [one, two])
    assert isinstance(said, Message)
    assert said.content == (one, two, Text(text="Which?"))
    assert illustrated(here, "No <image> here", []) == "No <image> here"
    with pytest.raises(DataError, match="1 times, and the row has 2 pictures"):
        illustrated(here, "<image>", [one, two])


async def shown(data: str, split: str | None = None, **settings: Any) -> list[list[bytes | None]]:
    """What `math` shows of each task of a data set."""
    host = InProcessHost("math", MathProblems, MathConfig(data=data, **settings))
    found: list[list[bytes | None]] = []
    async for card in host.tasks(split or host.info.splits[0], 0):
        assert not isinstance(card, BadRow), card.error
        prompt = card.public.prompt
        found.append([] if isinstance(prompt, str) else read(tuple(media_of(prompt))))
    return found


async def test_lines_name_files_beside_them(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    rows = [
        {"problem": "How dark is <image>?", "answer": "1", "image": "one.png"},
        {"problem": "2?", "answer": "2", "image": None},
    ]
    (folder / "rows.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rows))
    assert await shown(str(folder / "rows.jsonl")) == [[ONE], []]
    assert await shown(str(folder / "rows.jsonl"), images="") == [[], []]


async def test_parquet_holds_them_as_bytes_and_as_structs(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    import pyarrow  # pyright: ignore[reportMissingTypeStubs]  # it has none

    table: Any = pyarrow
    for name, image in (("a", ONE), ("b", {"bytes": ONE, "path": None}), ("c", [{"bytes": ONE, "path": "x.png"}])):
        rows = [{"problem": "1?", "answer": "1", "images": image}]
        parquet.write_table(table.Table.from_pylist(rows), tmp_path / f"{name}.parquet")
        assert await shown(str(tmp_path / f"{name}.parquet")) == [[ONE]]


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
async def test_a_folder_of_pictures_is_described_by_its_metadata(tmp_path: Path, suffix: str) -> None:
    for split, name, content in (("train", "a.png", ONE), ("test", "b.png", TWO)):
        folder = tmp_path / split
        folder.mkdir()
        (folder / name).write_bytes(content)
        values = {"file_name": name, "problem": "1?", "answer": "1"}
        with (folder / f"metadata.{suffix}").open("w", newline="") as file:
            if suffix == "csv":
                writer = csv.DictWriter(file, list(values))
                writer.writeheader()
                writer.writerow(values)
            else:
                file.write(json.dumps(values) + "\n")
    assert RowSource(str(tmp_path)).splits() == ("test", "train")
    assert await shown(str(tmp_path)) == [[TWO]]
    assert await shown(str(tmp_path), "train") == [[ONE]]
    assert await shown(str(tmp_path / "train")) == [[ONE]]


def test_a_torn_csv_row_is_bad_and_the_others_are_read(tmp_path: Path) -> None:
    (tmp_path / "metadata.csv").write_text("file_name,problem\na.png\nb.png,why\n")
    bad, good = RowSource(str(tmp_path)).rows("test")
    assert isinstance(bad, BadRow)
    assert "metadata.csv:2: the row has another number of columns" in str(bad.error)
    assert not isinstance(good, BadRow)


async def test_data_sets_of_hugging_face_give_their_pictures_as_they_are_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    datasets: Any = pytest.importorskip("datasets", reason="the extra data is not installed")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    pictures = [{"bytes": ONE, "path": None}, {"bytes": TWO, "path": None}]
    rows = {"problem": ["1?"], "answer": ["1"], "image": pictures[:1], "images": [pictures]}
    features = datasets.Features(
        {
            "problem": datasets.Value("string"),
            "answer": datasets.Value("string"),
            "image": datasets.Image(),
            "images": datasets.Sequence(datasets.Image()),
        }
    )
    (tmp_path / "set").mkdir()
    datasets.Dataset.from_dict(rows, features=features).to_parquet(str(tmp_path / "set" / "test.parquet"))
    data = f"hf:{tmp_path / 'set'}"
    assert await shown(data) == [[ONE, TWO]]
    assert await shown(data, images="image") == [[ONE]]


def test_kept_tasks_hold_pictures_only_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    from rollouthub.hosting.local import task_index
    from tests.engine.picture_world import PictureConfig, PictureWorld

    monkeypatch.setattr(task_index, "MEDIA_BYTES", 500)
    tasks = task_index.SplitTasks("test", lambda: iter(PictureWorld.tasks(PictureConfig(count=200), "test", 0)))
    for index in (*range(200), 0, 150):
        task = tasks.find(f"test/{index}")
        assert task.id == f"test/{index}"
        kept = tasks._kept.values()  # pyright: ignore[reportPrivateUsage]  # how much it holds shows nowhere else
        prompts = [each.public.prompt for each in kept if not isinstance(each.public.prompt, str)]
        assert sum(part.held_bytes for prompt in prompts for part in media_of(prompt)) <= 500
