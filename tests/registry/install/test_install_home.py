"""Where installed environments are kept."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from rollouthub.errors import ConfigError, UsageError
from rollouthub.plugins.lock import LockedEnvironment
from rollouthub_registry.install.install_home import RECORD, InstallHome
from rollouthub_registry.install.install_record import InstalledRecord
from rollouthub_registry.names import Release


def put(home: InstallHome, target: str) -> Path:
    """An installed version, of which there is but the record."""
    release = Release.parse(target)
    record = InstalledRecord(
        locked=LockedEnvironment(name=str(release.package), version=str(release.version)),
        summary="Words.",
        is_class=True,
        installed_at=datetime(2030, 1, 1, tzinfo=UTC),
        hub_version="0.1.0",
        installer="uv",
    )
    folder = home.folder(release)
    folder.mkdir(parents=True)
    (folder / RECORD).write_text(record.model_dump_json())
    return folder


def test_the_home_is_among_the_users_data() -> None:
    assert InstallHome.of({"XDG_DATA_HOME": "/data"}).root == Path("/data/rollouthub/environments")
    assert InstallHome.of({"HOME": "/home/me"}).root == Path("/home/me/.local/share/rollouthub/environments")
    assert InstallHome.of({"XDG_DATA_HOME": "data", "HOME": "/me"}).root == Path(
        "/me/.local/share/rollouthub/environments"
    )


def test_an_empty_home_has_nothing(tmp_path: Path) -> None:
    home = InstallHome(tmp_path / "none")
    assert home.all() == []
    assert home.find("acme/words") is None
    assert home.find("../words") is None
    assert not home.root.exists()


def test_versions_are_listed_in_their_order(tmp_path: Path) -> None:
    home = InstallHome(tmp_path)
    for target in ("acme/words@1.10.0", "acme/words@1.9.0", "acme/sums@0.1.0"):
        put(home, target)
    assert [each.target for each in home.all()] == ["acme/sums@0.1.0", "acme/words@1.9.0", "acme/words@1.10.0"]


def test_a_bare_name_is_the_highest_version_and_a_prerelease_only_where_there_is_no_other(tmp_path: Path) -> None:
    home = InstallHome(tmp_path)
    for target in ("acme/words@1.9.0", "acme/words@1.10.0", "acme/words@2.0.0-rc.1", "acme/new@1.0.0-rc.1"):
        put(home, target)
    assert [each.target if (each := home.find(name)) else None for name in ("acme/words", "acme/new")] == [
        "acme/words@1.10.0",
        "acme/new@1.0.0-rc.1",
    ]
    exact = home.find("acme/words@2.0.0-rc.1")
    assert exact is not None
    assert exact.file == tmp_path / "acme/words/2.0.0-rc.1/content/env.toml"
    assert home.find("acme/words@3.0.0") is None


@pytest.mark.parametrize("content", ["", "{", '{"schema_version": 2}', "\x00"])
def test_a_damaged_record_is_named(content: str, tmp_path: Path) -> None:
    home = InstallHome(tmp_path)
    folder = put(home, "acme/words@1.2.0")
    (folder / RECORD).write_text(content)
    with pytest.raises(ConfigError, match=r"acme/words@1\.2\.0 .* is damaged: .*hub remove acme/words@1\.2\.0"):
        home.find("acme/words")
    home.remove(Release.parse("acme/words@1.2.0"))
    assert home.all() == []


def test_a_record_of_another_version_is_refused(tmp_path: Path) -> None:
    home = InstallHome(tmp_path)
    folder = put(home, "acme/words@1.2.0")
    folder.rename(folder.with_name("1.3.0"))
    with pytest.raises(ConfigError, match=r"is of acme/words@1\.2\.0"):
        home.all()


def test_removing_leaves_the_other_versions_and_no_empty_folder(tmp_path: Path) -> None:
    home = InstallHome(tmp_path)
    put(home, "acme/words@1.2.0")
    put(home, "acme/words@1.3.0")
    home.remove(Release.parse("acme/words@1.3.0"))
    assert [each.target for each in home.all()] == ["acme/words@1.2.0"]
    home.remove(Release.parse("acme/words@1.2.0"))
    assert [each.name for each in tmp_path.iterdir()] == [".lock"]
    with pytest.raises(UsageError, match=r"acme/words@1\.2\.0 is not installed"):
        home.remove(Release.parse("acme/words@1.2.0"))


def test_what_a_killed_process_left_is_never_seen_and_swept_up_by_the_next(tmp_path: Path) -> None:
    home = InstallHome(tmp_path)
    put(home, "acme/words@1.2.0").rename(left := home.aside(Release.parse("acme/words@1.2.0")))
    assert home.all() == []
    with home.working():
        assert not left.exists()
        left.mkdir()
        with InstallHome(tmp_path).working():
            assert left.exists(), "somebody still works there"
