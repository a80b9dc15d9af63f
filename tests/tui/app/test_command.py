"""`hub watch` as a command: which run is meant, and what cannot be done."""

import json
from pathlib import Path

import pytest

from rollouthub.cli.run_lookup import find_watched, known_names, usual_roots
from rollouthub.errors import RunDirectoryError, UnknownNameError, UsageError
from tests.cli.conftest import Hub, hub
from tests.live.control.conftest import Guest, Watch, until
from tests.store.records import record, write
from tests.tui.made import settle

__all__ = ["hub"]


async def test_a_run_is_found_by_path_name_last_and_id_in_any_of_the_roots(tmp_path: Path) -> None:
    first, second = tmp_path / "one" / "early", tmp_path / "two" / "deeper" / "late"
    for directory, at in ((first, 100.0), (second, 200.0)):
        await write(directory, [record("g1-0")])
        settle(directory, created_at=json.dumps(at), run_id=f"id-{directory.name}")
    roots = [tmp_path / "one", tmp_path / "two"]
    environ = {"XDG_RUNTIME_DIR": str(tmp_path)}
    for name, meant in {str(first): first, "early": first, "last": second, "id-late": second}.items():
        assert await find_watched(name, roots, environ) == meant
    assert known_names(roots) == ["early", "late"]
    with pytest.raises(UnknownNameError, match=r"no run is named 'erly'; did you mean 'early'\?"):
        await find_watched("erly", roots, environ)
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunDirectoryError):
        await find_watched(str(tmp_path / "empty"), roots, environ)
    (first / "run.db").write_bytes(b"no database" * 100)
    with pytest.raises(RunDirectoryError):
        await find_watched("early", roots, environ)
    with pytest.raises(UsageError, match="there are no runs in"):
        await find_watched("last", [tmp_path / "empty"], environ)


async def test_a_run_that_plays_is_found_by_the_beginning_of_its_id(watch: Watch, tmp_path: Path) -> None:
    guest = Guest()
    async with watch(guest) as run:
        await until(lambda: guest.waiting == 3)
        async with run.knock() as client:
            run_id = (await client.list(0)).run.run_id
        assert await find_watched(run_id[:-2], [tmp_path / "elsewhere"], run.environ) == run.directory
        with pytest.raises(UnknownNameError, match="no run is named 'xyz'"):
            await find_watched("xyz", [tmp_path / "elsewhere"], run.environ)


def test_the_usual_roots_are_runs_here_and_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert usual_roots({"XDG_DATA_HOME": "/data"}) == [tmp_path / "runs", Path("/data/rollouthub/runs")]


def test_without_a_terminal_it_names_what_prints(hub: Hub) -> None:
    refused = hub("watch").refused()
    assert "hub watch needs a terminal" in refused
    assert "hub runs" in refused
    assert "hub view" in refused
