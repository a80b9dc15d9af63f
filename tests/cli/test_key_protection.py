"""What a hub keeps from the programs that it starts, and from others of its user."""

import os
import secrets
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from rollouthub.hosting.client.server_process import start
from rollouthub.hosting.launch import ServeOrder
from rollouthub.hosting.server_program import OURS
from tests.hosting.server.processes import HUB, ROOT

CANARY = f"canary-{secrets.token_hex(8)}"
KEYS = {"OPENAI_API_KEY": f"{CANARY}-openai", "AWS_SECRET_ACCESS_KEY": f"{CANARY}-aws"}
NOBODY = 65534

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")

NOSY = """
import os
from pathlib import Path

from tests.engine.conftest import Counter


class Nosy(Counter):
    async def setup(self) -> None:
        await super().setup()
        canary, above = os.environ["SEEN_AT"], set()
        pid = os.getpid()
        while pid > 1:
            above.add(pid)
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        lines = [f"own {os.environ.get('OPENAI_API_KEY')}"]
        for place in Path("/proc").glob("[0-9]*"):
            try:
                shown = (place / "environ").read_bytes().split(b"\\0")
                name = (place / "cmdline").read_bytes().replace(b"\\0", b" ").decode(errors="replace")[:80]
            except OSError:
                continue
            if f"SEEN_AT={canary}".encode() not in shown:
                continue  # another test's
            kind = "above" if int(place.name) in above else "beside"
            keys = [entry.decode() for entry in shown if entry.partition(b"=")[2].startswith(b"canary-")]
            lines.append(f"{kind} {name!r} {keys}")
        Path(canary).write_text("\\n".join(lines))
"""
SOAK = ("stream_rollouts", "hub run --pool ray")
DECLARING = """
import os
from pathlib import Path

from tests.engine.conftest import Counter

try:
    is_shown = os.environ["LAB_TOKEN"].encode() in Path("/proc/self/environ").read_bytes()
except PermissionError:
    is_shown = False
Path(__file__).with_name("had").write_text(f"{os.environ['LAB_TOKEN']} {'shown' if is_shown else 'not shown'}")


class Declaring(Counter):
    pass
"""
EVALUATE = """
import rollouthub

run = rollouthub.evaluate("nosy.py", "mock/say?text=hi", served=True, limit=1, directory="run", progress=False)
assert run.mean_reward is not None
"""
STREAM = """
import asyncio
import rollouthub


async def main() -> None:
    settings = {"environments": ("nosy.py",), "model": "mock/say?text=hi", "served": True, "limit": 1, "repeats": 1}
    async with rollouthub.stream_rollouts(**settings, directory="run", batch=1, epochs=1) as supply:
        async for _ in supply:
            break


asyncio.run(main())
"""
RUN = [*HUB, "run", "nosy.py", "-m", "mock/say?text=hi", "--limit", "1", "-o", "run", "-q"]
ON_RAY = [*RUN, "--pool", "ray", "--workers", "1"]
STARTS = {
    "hub run --served": [*RUN, "--served"],
    "evaluate": [sys.executable, "-P", "-c", EVALUATE],
    "stream_rollouts": [sys.executable, "-P", "-c", STREAM],
    "hub run --pool ray": ON_RAY,
    "hub run --pool ray --served": [*ON_RAY, "--served"],
}

HIDING = """
import os, subprocess, sys
from rollouthub.models.key_protection import hide_secrets

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


@pytest.mark.parametrize("way", [pytest.param(way, marks=pytest.mark.soak if way in SOAK else []) for way in STARTS])
def test_no_process_of_a_run_shows_the_key_that_it_was_started_with(way: str, tmp_path: Path) -> None:
    if "ray" in way:
        pytest.importorskip("ray", reason="ray is not installed")
    (tmp_path / "nosy.py").write_text(NOSY)
    seen = tmp_path / "seen"
    environ = {**os.environ, **KEYS, "PYTHONPATH": str(ROOT), "SEEN_AT": str(seen)}
    done = subprocess.run(
        STARTS[way], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=180, check=False
    )
    assert seen.exists(), done.stderr
    own, *others = seen.read_text().splitlines()
    assert any(line.startswith("above") for line in others) or os.geteuid() != 0, others
    assert [line for line in others if "canary" in line.partition(" [")[2]] == []
    # What plays in a process of its own has no key; what plays in the hub's, or in its worker's, has what the hub has.
    assert own == ("own None" if way != "hub run --pool ray" else f"own {KEYS['OPENAI_API_KEY']}")
    assert done.returncode in (0, 1), done.stderr


async def test_a_server_shows_no_secret_that_its_environment_declares(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_TOKEN", CANARY)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    (tmp_path / "declaring.py").write_text(DECLARING)
    order = ServeOrder(environment=str(tmp_path / "declaring.py"), control_token="t" * 32)
    server = await start("declaring", replace(OURS, secrets=("LAB_TOKEN",)))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.hear)
        try:
            assert (await server.greet(order)).name
        finally:
            await server.end()
    assert (tmp_path / "had").read_text() == f"{CANARY} not shown"


def _python_of(user: int) -> str | None:
    """An interpreter that this user can start."""
    for python in (sys.executable, "/usr/bin/python3"):
        if os.geteuid() != 0:
            return python
        ask = [python, "-c", "import sys; import rollouthub.models.key_protection; assert sys.version_info >= (3, 11)"]
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
