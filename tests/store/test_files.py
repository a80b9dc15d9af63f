"""Where files are written: what was typed wrongly is named before any work, and nothing is left behind."""

from pathlib import Path

import pytest

from rollouthub.errors import ConfigError
from rollouthub.store.atomic_files import check_output, complete_file
from tests.store.records import names_in


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("missing/out.jsonl", r"there is no folder .*missing; make it first"),
        ("taken", "it is a folder; name a file in it"),
        ("file/out.jsonl", r"there is no folder .*file; make it first"),
        ("x" * 300, "File name too long"),
        ("circle/out.jsonl", "cannot write .*circle"),
        # Nobody, not even root, makes a file there.
        ("/proc/out.jsonl", "cannot write /proc/out.jsonl: "),
    ],
    ids=["no_folder", "a_folder", "no_folder_but_a_file", "too_long", "links_in_a_circle", "no_file_may_be_there"],
)
def test_a_place_that_takes_no_file_is_refused_before_any_work(tmp_path: Path, name: str, says: str) -> None:
    if name.startswith("/") and not Path(name).parent.is_dir():
        pytest.skip(f"there is no {Path(name).parent}")
    (tmp_path / "taken").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "circle").symlink_to("circle")
    with pytest.raises(ConfigError, match=says):
        check_output(tmp_path / name)
    is_begun = False
    with pytest.raises(ConfigError, match=says), complete_file(tmp_path / name):
        is_begun = True
    assert not is_begun
    assert names_in(tmp_path) == ["circle", "file", "taken"]


def test_asking_leaves_what_is_there_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("before")
    check_output(tmp_path / "old")
    check_output(tmp_path / "new")
    assert names_in(tmp_path) == ["old"]
    assert (tmp_path / "old").read_text() == "before"


def test_a_file_that_is_there_is_replaced_once_the_new_one_is_whole(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("before")
    with complete_file(tmp_path / "out") as path:
        path.write_text("after")
        assert (tmp_path / "out").read_text() == "before"
    assert (tmp_path / "out").read_text() == "after"
    assert names_in(tmp_path) == ["out"]
