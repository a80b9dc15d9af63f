"""Commands whose libraries are not installed say what to install."""

import json
import subprocess
import sys
from importlib.metadata import Distribution
from pathlib import Path

import pytest

from rollouthub.plugins import extras
from rollouthub.plugins.extras import extra_with, pip_install


@pytest.mark.parametrize(("module", "extra"), [("cryptography", "registry"), ("rfc8785", "registry"), ("ray", "ray")])
def test_a_missing_library_leads_to_its_extra(module: str, extra: str) -> None:
    assert extra_with(f"{module}.below") == extra


def test_a_module_of_no_extra_is_a_fault_of_ours() -> None:
    assert extra_with("aiohttp") is None  # the hub's own need
    assert extra_with("no_such_module") is None


def test_a_command_without_its_libraries_ends_in_one_line() -> None:
    program = (
        "import sys; sys.modules['cryptography'] = None; sys.argv = ['hub', 'trust']; "
        "from rollouthub.cli.main import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 2
    assert pip_install("registry") in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("is_in_place", [True, False])
def test_who_runs_from_a_clone_is_told_to_install_from_there(
    is_in_place: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone = tmp_path / "a clone"
    clone.mkdir()
    about = {"url": clone.as_uri(), "dir_info": {"editable": is_in_place}}
    installed = tmp_path / "rollouthub-0.dist-info"
    installed.mkdir()
    (installed / "direct_url.json").write_text(json.dumps(about))

    def distribution(_: str) -> Distribution:
        return Distribution.at(installed)

    monkeypatch.setattr(extras, "distribution", distribution)
    monkeypatch.chdir(clone)
    here = pip_install("litellm")
    monkeypatch.chdir(tmp_path)
    elsewhere = pip_install("litellm")
    if is_in_place:
        assert (here, elsewhere) == ("pip install -e '.[litellm]'", f"pip install -e '{clone}[litellm]'")
    else:
        assert here == elsewhere == "pip install 'rollouthub[litellm]'"
