"""What a hub keeps from the programs that it starts, and from others of its user."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hosting.server.processes import HUB, ROOT

KEYS = {"OPENAI_API_KEY": "canary-5e1f-openai", "AWS_SECRET_ACCESS_KEY": "canary-5e1f-aws"}
NOBODY = 65534

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")

NOSY = """
import os
from pathlib import Path

from tests.engine.conftest import Counter


class Nosy(Counter):
    async def setup(self) -> None:
        await super().setup()
        seen, pid = b"", os.getpid()
        while pid > 1:
            try:
                seen += b"looked " + Path(f"/proc/{pid}/environ").read_bytes()
            except PermissionError:
                seen += b"refused "
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        Path(os.environ["SEEN_AT"]).write_bytes(seen)
"""

HIDING = """
import os, subprocess, sys
from rollouthub.cli.key_protection import hide_secrets

LOOK = '''
import os
for name in ("environ", "mem"):
    try:
        with open(f"/proc/{os.getppid()}/{name}", "rb") as file:
            print(name, b"canary" in file.read() if name == "environ" else "open")
    except PermissionError:
        print(name, "refused")
print(os.environ["OPENAI_API_KEY"])
'''
for hide in (lambda: None, hide_secrets):
    hide()
    sys.stdout.flush()
    subprocess.run([sys.executable, "-c", LOOK], check=True)
print(os.environ["AWS_SECRET_ACCESS_KEY"], os.environ["PLAIN"], os.listdir("/proc/self/fd")[0])
"""


def test_an_environment_in_its_own_process_finds_no_key_in_any_process_above_it(tmp_path: Path) -> None:
    (tmp_path / "nosy.py").write_text(NOSY)
    seen = tmp_path / "seen"
    environ = {**os.environ, **KEYS, "PYTHONPATH": str(ROOT), "SEEN_AT": str(seen)}
    command = [*HUB, "run", "nosy.py", "--served", "-m", "mock/say?text=hi", "--limit", "1", "-o", "run", "-q"]
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=120, check=False)
    assert seen.exists(), done.stderr
    found = seen.read_bytes()
    assert b"looked" in found or b"refused" in found
    assert b"canary" not in found


def _python_of(user: int) -> str | None:
    """An interpreter that this user can start."""
    for python in (sys.executable, "/usr/bin/python3"):
        if os.geteuid() != 0:
            return python
        ask = [python, "-c", "import sys; import rollouthub.cli.key_protection; assert sys.version_info >= (3, 11)"]
        try:
            done = subprocess.run(
                ask, cwd="/", env={"PYTHONPATH": str(ROOT / "hub")}, user=user, group=user, extra_groups=[], check=False
            )
        except OSError:
            continue
        if done.returncode == 0:
            return python
    return None


def _hidden(python: str, user: int | None) -> list[str]:
    """What a process says that hides its keys, and what its child finds before and after."""
    done = subprocess.run(
        [python, "-c", HIDING],
        cwd="/",
        env={**KEYS, "PLAIN": "plain", "PYTHONPATH": str(ROOT / "hub")},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        user=user,
        group=user,
        extra_groups=None if user is None else [],
    )
    return done.stdout.splitlines()


def test_a_plain_user_s_child_reads_neither_its_variables_nor_its_memory() -> None:
    python = _python_of(NOBODY)
    if python is None:
        pytest.skip("no interpreter here can be started by a plain user")
    said = _hidden(python, NOBODY if os.geteuid() == 0 else None)
    key = KEYS["OPENAI_API_KEY"]
    assert said[:3] == ["environ True", said[1], key]
    assert said[3:6] == ["environ refused", "mem refused", key]
    assert said[6].startswith(f"{KEYS['AWS_SECRET_ACCESS_KEY']} plain ")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_root_s_child_finds_no_key_among_its_variables() -> None:
    said = _hidden(sys.executable, None)
    assert [said[0], said[3]] == ["environ True", "environ False"]
    assert said[6].startswith(f"{KEYS['AWS_SECRET_ACCESS_KEY']} plain ")
