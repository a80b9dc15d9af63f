"""The virtual environments and wheels of foreign formats: made once, by hash, whole or not at all."""

import hashlib
import marshal
import subprocess
from importlib.util import cache_from_source
from pathlib import Path

import pytest

from rollouthub_registry.install.foreign_home import ForeignHome
from rollouthub_registry.install.install_error import InstallRefused
from tests.registry.install.wheels import World, write_wheel


@pytest.fixture
def home(world: World, tmp_path: Path) -> ForeignHome:
    """A user's home, with a folder of wheels for an index."""
    write_wheel(world.links, "lemma", "1.0", ["axiom"], {"lemma/proof.py": "PROVED = True\n"})
    write_wheel(world.links, "axiom", "2.0", files={"axiom/__init__.py": "SELF_EVIDENT = True\n"})
    return ForeignHome(tmp_path / "foreign", environ=world.environ, installer=world.installer)


def test_what_requirements_need_is_chosen_with_hashes_and_installed_from_those_alone(home: ForeignHome) -> None:
    told: list[str] = []
    chosen = home.lock(["lemma"], told.append)
    assert [(each.name, each.version, bool(each.hashes)) for each in chosen] == [
        ("axiom", "2.0", True),
        ("lemma", "1.0", True),
    ]
    python = home.python(chosen, told.append)
    said = subprocess.run([python, "-c", "import axiom; print(axiom.SELF_EVIDENT)"], capture_output=True, check=True)
    assert said.stdout == b"True\n"
    assert (told[0], told[-1]) == ("choosing what lemma needs", "compiling its modules")
    count = len(told)
    assert home.python(chosen, told.append) == python
    assert len(told) == count, "it was made again"
    assert home.python((), told.append) != python


def test_bytes_that_are_not_those_of_the_lock_are_refused_and_leave_nothing(home: ForeignHome) -> None:
    (chosen,) = home.lock(["axiom"])
    other = chosen.model_copy(update={"hashes": (f"sha256:{'0' * 64}",)})
    with pytest.raises(InstallRefused):
        home.python([other])
    with pytest.raises(InstallRefused):
        home.unpacked(other)
    assert [path.name for path in home.root.glob("*/*") if path.is_dir()] == []


def test_a_wheel_is_unpacked_without_its_dependencies_whatever_python_it_asks_for(
    home: ForeignHome, world: World, tmp_path: Path
) -> None:
    info = "Metadata-Version: 2.1\nName: late\nVersion: 3.0\nRequires-Python: >=3.98\nRequires-Dist: nowhere\n"
    files = {"late-3.0.dist-info/METADATA": info, "late/data.txt": "rows"}
    page = tmp_path / "no-index" / "late" / "index.html"
    file = write_wheel(page.parent, "late", "3.0", files=files)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    page.write_text(f'<a href="{file.name}#sha256={digest}" data-requires-python="&gt;=3.98">{file.name}</a>')
    world.environ["PIP_FIND_LINKS"] = str(page.parent)
    wheel = home.wheel("late==3.0")
    assert (wheel.name, wheel.version, wheel.hashes) == ("late", "3.0", (f"sha256:{digest}",))
    folder = home.unpacked(wheel)
    assert (folder / "late" / "data.txt").read_text() == "rows"
    assert home.unpacked(wheel) == folder


def test_modules_are_compiled_and_not_run_so_that_no_process_of_theirs_has_to(home: ForeignHome, world: World) -> None:
    files = {"grim/__init__.py": "raise SystemExit('it ran')\n", "grim/old.py": "print 'not Python 3'\n"}
    write_wheel(world.links, "grim", "1.0", files=files)
    (wheel,) = chosen = home.lock(["grim"])
    site = next(home.python(chosen).parents[1].glob("lib/python*/site-packages"))
    for folder in (site, home.unpacked(wheel)):
        module = folder / "grim" / "__init__.py"
        compiled = Path(cache_from_source(str(module))).read_bytes()
        assert marshal.loads(compiled[16:]).co_filename == str(module)
        assert int.from_bytes(compiled[8:12], "little") == int(module.stat().st_mtime), "Python would compile it again"
        assert not Path(cache_from_source(str(module.with_name("old.py")))).exists()


@pytest.mark.parametrize("text", ["nowhere==1", "lemma @ https://example.org/lemma.whl", "lemma==", ""])
def test_a_requirement_that_cannot_be_had_is_refused_in_words(home: ForeignHome, text: str) -> None:
    with pytest.raises(InstallRefused):
        home.lock([text])
    with pytest.raises(InstallRefused):
        home.wheel(text)
