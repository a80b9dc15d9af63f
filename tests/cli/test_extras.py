"""Commands whose libraries are not installed say what to install."""

import subprocess
import sys

import pytest

from rollouthub.cli.extras import extra_with


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
    assert "pip install 'rollouthub[registry]'" in done.stderr
    assert "Traceback" not in done.stderr
