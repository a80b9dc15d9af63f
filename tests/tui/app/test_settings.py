"""What is remembered, by one and by several at a time."""

from pathlib import Path

import pytest

from rollouthub_tui.settings import Settings, load_settings, save_settings, settings_path


def test_two_at_a_time_each_keep_what_they_changed(tmp_path: Path) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path)}
    first, second = load_settings(environ), load_settings(environ)
    first.theme, second.preview = "nord", False
    save_settings(first, environ, since=Settings())
    save_settings(second, environ, since=Settings())
    assert load_settings(environ) == Settings(theme="nord", preview=False)
    save_settings(Settings(), environ, since=Settings())
    assert load_settings(environ).theme == "nord", "nothing was changed, so nothing is written"
    assert [path.name for path in (tmp_path / "rollouthub").iterdir()] == ["watch.json"]


@pytest.mark.parametrize("content", ["{", "[" * 100_000, '{"preview": 3}', '{"theme": "x", "later": 1}', "\0"])
def test_a_damaged_file_begins_anew_and_one_of_another_version_is_read_as_far_as_it_goes(
    tmp_path: Path, content: str
) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path)}
    settings_path(environ).parent.mkdir()
    settings_path(environ).write_text(content)
    assert load_settings(environ) == (Settings(theme="x") if "later" in content else Settings())


def test_where_nothing_can_be_written_nothing_is(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    save_settings(Settings(theme="nord"), {"XDG_STATE_HOME": str(tmp_path / "file")})


def test_filters_saved_and_deleted_by_several_at_a_time_are_all_kept(tmp_path: Path) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path)}
    save_settings(Settings(filters={"old": "passed", "gone": "suspect"}), environ)
    first, second = load_settings(environ), load_settings(environ)
    begun = first.model_copy()
    first.filters = {"old": "not passed", "mine": "turns > 3"}  # one is changed, one deleted, one added
    second.filters = {**second.filters, "yours": "starred"}
    save_settings(first, environ, since=begun)
    save_settings(second, environ, since=begun)
    assert load_settings(environ).filters == {"old": "not passed", "mine": "turns > 3", "yours": "starred"}
