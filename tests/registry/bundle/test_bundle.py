"""Bundles: the same bytes everywhere, and a folder again."""

import os
import tarfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rollouthub_registry.bundle.bundle import build_bundle, extract, open_bundle
from rollouthub_registry.bundle.bundle_error import BundleRefused
from tests.registry.bundle.packages import FILES, MANIFEST, wheel_bytes, write_package


def tree(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Every file below a folder with its content and whether it is executable; a umask decides on the rest."""
    files = (file for file in folder.rglob("*") if file.is_file())
    return {file.relative_to(folder).as_posix(): (file.read_bytes(), file.stat().st_mode & 0o100) for file in files}


def test_a_bundle_knows_its_release_its_digest_and_its_files(tmp_path: Path) -> None:
    bundle = build_bundle(write_package(tmp_path / "words"), tmp_path / "out")
    assert bundle.path == tmp_path / "out" / "acme__words-1.2.0.envhub"
    assert str(bundle.release) == "acme/words@1.2.0"
    assert bundle.files == tuple(sorted(FILES))
    assert bundle.size == bundle.path.stat().st_size
    assert bundle == open_bundle(bundle.path)
    assert [file.name for file in (tmp_path / "out").iterdir()] == [bundle.path.name]


def test_a_bundle_becomes_the_same_folder_again(tmp_path: Path) -> None:
    folder = write_package(tmp_path / "words")
    (folder / "server.py").chmod(0o755)
    bundle = build_bundle(folder, tmp_path)
    extract(bundle, tmp_path / "unpacked")
    assert tree(tmp_path / "unpacked") == tree(folder)
    assert build_bundle(tmp_path / "unpacked", tmp_path / "again").digest == bundle.digest


def test_the_bytes_of_a_known_package_never_change(tmp_path: Path) -> None:
    digest = build_bundle(write_package(tmp_path / "words"), tmp_path).digest
    assert digest == "sha256:76ae835d2e85e1095076f9f70fcd6ef05674f07bbe3824902d18599645c43e9a"


def test_time_umask_order_and_place_do_not_change_the_bytes(tmp_path: Path) -> None:
    first = build_bundle(write_package(tmp_path / "words"), tmp_path / "a")
    umask = os.umask(0o077)
    try:
        other = tmp_path / "else" / "where"
        for path in reversed(FILES):
            write_package(other, **{path: FILES[path]})
            os.utime(other / path, (1, 1))
        (other / "data").chmod(0o700)
        assert build_bundle(other, tmp_path / "b").digest == first.digest
    finally:
        os.umask(umask)


def test_any_tar_reads_a_bundle(tmp_path: Path) -> None:
    bundle = build_bundle(write_package(tmp_path / "words"), tmp_path)
    with tarfile.open(bundle.path, "r:gz") as archive:
        assert archive.getnames() == sorted(FILES)
        inside = archive.extractfile("data/words.txt")
        assert inside is not None
        assert inside.read().decode() == FILES["data/words.txt"]


def test_a_file_larger_than_a_block_survives(tmp_path: Path) -> None:
    folder = write_package(tmp_path / "words")
    content = bytes(range(256)) * 1000
    (folder / "large.bin").write_bytes(content)
    extract(build_bundle(folder, tmp_path), tmp_path / "unpacked")
    assert (tmp_path / "unpacked" / "large.bin").read_bytes() == content


NAMES = st.text(st.sampled_from("abcxyz0123_-é漢"), min_size=1, max_size=8)
TREES = st.dictionaries(
    st.lists(NAMES, min_size=1, max_size=3).map("/".join),
    st.tuples(st.binary(max_size=2000), st.booleans()),
    max_size=8,
)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files=TREES, data=st.data())
def test_any_files_give_the_same_bytes_in_any_order_and_come_back(
    files: dict[str, tuple[bytes, bool]], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    digests: set[str] = set()
    root = tmp_path_factory.mktemp("order")
    for number in range(2):
        folder = write_package(root / f"folder{number}")
        for path in data.draw(st.permutations(list(files))):
            file = folder / "files" / path
            if any(
                (folder / "files" / path).is_relative_to(folder / "files" / other) for other in files if other != path
            ):
                continue
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(files[path][0])
            file.chmod(0o755 if files[path][1] else 0o644)
        bundle = build_bundle(folder, root / f"out{number}")
        digests.add(bundle.digest)
        extract(bundle, root / f"unpacked{number}")
        assert tree(root / f"unpacked{number}") == tree(folder)
    assert len(digests) == 1


def test_what_is_of_the_work_and_not_of_the_package_stays_out(tmp_path: Path) -> None:
    folder = write_package(
        tmp_path / "words",
        **{
            ".git/config": "x",
            ".venv/bin/python": "x",
            "my-env/pyvenv.cfg": "x",
            "my-env/lib.py": "x",
            "runs/1/run.db": "x",
            "sub/__pycache__/a.pyc": "x",
            "acme__words-1.0.0.envhub": "x",
            ".hubignore": "# scratch\nnotes/\n*.tmp\n!keep.tmp\n",
            "notes/idea.md": "x",
            "a.tmp": "x",
            "keep.tmp": "x",
        },
    )
    (folder / ".venv" / "python3").symlink_to("/usr/bin/python3")
    files = build_bundle(folder, tmp_path).files
    assert files == tuple(sorted([*FILES, ".hubignore", "keep.tmp"]))


def test_a_manifest_that_does_not_hold_is_told_with_its_line(tmp_path: Path) -> None:
    folder = write_package(
        tmp_path / "words", **{"env.toml": MANIFEST.replace('version = "1.2.0"', 'versoin = "1.2.0"')}
    )
    with pytest.raises(BundleRefused, match=r"env\.toml:2: .*'versoin'.*'version'"):
        build_bundle(folder, tmp_path)


def test_a_folder_is_not_unpacked_over_another(tmp_path: Path) -> None:
    bundle = build_bundle(write_package(tmp_path / "words"), tmp_path)
    (tmp_path / "there").mkdir()
    with pytest.raises(BundleRefused, match="is there already"):
        extract(bundle, tmp_path / "there")


def test_an_archive_exchanged_after_it_was_checked_is_not_unpacked(tmp_path: Path) -> None:
    bundle = build_bundle(write_package(tmp_path / "words"), tmp_path / "a")
    other = build_bundle(write_package(tmp_path / "words", **{"server.py": "print('evil')\n"}), tmp_path / "b")
    other.path.replace(bundle.path)
    with pytest.raises(BundleRefused, match="changed since it was checked"):
        extract(bundle, tmp_path / "unpacked" / "words")
    assert list((tmp_path / "unpacked").iterdir()) == []


def test_a_wheel_is_taken_as_it_is_and_stored_in_one_form(tmp_path: Path) -> None:
    folder = write_package(tmp_path / "words")
    (folder / "wheel").mkdir()
    (folder / "wheel" / "words-1.2.0-py3-none-any.whl").write_bytes(wheel_bytes())
    bundle = build_bundle(folder, tmp_path)
    assert bundle.wheel == "wheel/words-1.2.0-py3-none-any.whl"
    extract(bundle, tmp_path / "unpacked")
    with zipfile.ZipFile(tmp_path / "unpacked" / bundle.wheel) as wheel:
        assert wheel.testzip() is None
        assert {entry.compress_type for entry in wheel.infolist()} == {zipfile.ZIP_STORED}
        assert "words/__init__.py" in wheel.namelist()
    assert build_bundle(tmp_path / "unpacked", tmp_path / "again").digest == bundle.digest


def test_a_python_package_is_built_from_what_is_bundled_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVIDER_KEY", "never given to a build")
    folder = write_package(
        tmp_path / "words",
        **{
            "pyproject.toml": PROJECT,
            "backend.py": BACKEND,
            "runs/1/notes.py": "ignored",
        },
    )
    bundle = build_bundle(folder, tmp_path)
    extract(bundle, tmp_path / "unpacked")
    assert bundle.wheel is not None
    with zipfile.ZipFile(tmp_path / "unpacked" / bundle.wheel) as wheel:
        seen = wheel.read("words/seen.txt").decode()
    assert "server.py" in seen
    assert "runs" not in seen
    assert "PROVIDER_KEY" not in seen
    assert not (folder / "dist").exists()
    assert not (folder / "build").exists()


def test_an_environment_in_python_comes_in_the_wheel_that_its_manifest_names(tmp_path: Path) -> None:
    declared = MANIFEST.partition("[server]")[0] + '[python]\nentry = "words:Words"\ndistribution = "Words"\n'
    folder = write_package(tmp_path / "words", **{"env.toml": declared})
    with pytest.raises(BundleRefused, match="holds no wheel of 'Words'"):
        build_bundle(folder, tmp_path)
    (folder / "wheel").mkdir()
    (folder / "wheel" / "words-1.2.0-py3-none-any.whl").write_bytes(wheel_bytes())
    assert build_bundle(folder, tmp_path).wheel == "wheel/words-1.2.0-py3-none-any.whl"
    write_package(folder, **{"env.toml": declared.replace('"Words"', '"numbers"')})
    with pytest.raises(BundleRefused, match=r"wheel is of 'words', but env\.toml names the distribution 'numbers'"):
        build_bundle(folder, tmp_path)


@pytest.mark.parametrize("named", ["absent.jsonl", "../tasks.jsonl", "/etc/passwd"])
def test_tasks_that_a_manifest_names_must_be_in_the_bundle(named: str, tmp_path: Path) -> None:
    folder = write_package(tmp_path / "words", **{"env.toml": MANIFEST.replace("tasks.jsonl", named)})
    with pytest.raises(BundleRefused, match="no such file is in the bundle"):
        build_bundle(folder, tmp_path)


def test_the_files_that_a_server_starts_with_must_be_in_the_bundle(tmp_path: Path) -> None:
    declared = MANIFEST.replace("[server]", '[server]\nfiles = "start"')
    folder = write_package(tmp_path / "words", **{"env.toml": declared})
    with pytest.raises(BundleRefused, match="nothing of it is in the bundle"):
        build_bundle(folder, tmp_path)
    assert "start/a" in build_bundle(write_package(folder, **{"env.toml": declared, "start/a": "x"}), tmp_path).files


def test_a_build_that_fails_says_what_it_said(tmp_path: Path) -> None:
    project = (
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n[project]\nname = "words"\n'
    )
    broken = "raise SystemExit('a backend that breaks')\n"
    folder = write_package(tmp_path / "words", **{"pyproject.toml": project, "backend.py": broken})
    with pytest.raises(BundleRefused, match="a backend that breaks"):
        build_bundle(folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()


PROJECT = """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "words"
version = "1.2.0"
"""
BACKEND = """\
import os, pathlib, zipfile

def get_requires_for_build_wheel(config_settings=None):
    return []

def build_wheel(directory, config_settings=None, metadata_directory=None):
    name = "words-1.2.0-py3-none-any.whl"
    info = "words-1.2.0.dist-info"
    seen = [path.as_posix() for path in sorted(pathlib.Path(".").rglob("*"))] + sorted(os.environ)
    with zipfile.ZipFile(os.path.join(directory, name), "w") as wheel:
        wheel.writestr("words/seen.txt", "\\n".join(seen))
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\\nName: words\\nVersion: 1.2.0\\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{info}/RECORD", "")
    return name
"""
