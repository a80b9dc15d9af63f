"""Installs that meet each other, are interrupted, or killed."""

import os
import signal
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path

import anyio
import pytest

from rollouthub_registry.install.installation import install
from tests.registry.install.wheels import ORIGIN, World, server_bundle, write_wheel

# A shell that starts the tests in its background has them, and what they start, ignore the signal of Ctrl-C.
_INSTALL = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from pathlib import Path
from rollouthub_registry.bundle.bundle import open_bundle
from rollouthub_registry.install.install_home import InstallHome
from rollouthub_registry.install.installation import Origin, install

def work():
    install(open_bundle(Path(sys.argv[1])), Origin("file:///registry"), InstallHome(Path(sys.argv[2])))

"""


def left(world: World) -> list[str]:
    """What is in the home; nothing but its lock where all is well."""
    return sorted(str(each.relative_to(world.home.root)) for each in world.home.root.glob("**/*"))


def _begun(world: World, bundle: Path, start: str = "work()") -> tuple[subprocess.Popen[str], socket.socket]:
    """An install in a process of its own that waits for an index which does not answer."""
    index = socket.create_server(("127.0.0.1", 0))
    index.settimeout(120)
    url = f"http://127.0.0.1:{index.getsockname()[1]}/"
    environ = {**world.environ, "UV_DEFAULT_INDEX": url, "PIP_INDEX_URL": url}
    command = [sys.executable, "-c", _INSTALL + start, str(bundle), str(world.home.root)]
    process = subprocess.Popen(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        connection, _ = index.accept()
    except TimeoutError:
        process.kill()
        raise AssertionError(process.communicate()) from None
    connection.detach()
    return process, index


def test_ctrl_c_leaves_nothing(quick: World, tmp_path: Path) -> None:
    process, index = _begun(quick, server_bundle(tmp_path / "words", ["dep"]).path)
    assert [each for each in left(quick) if each.endswith("content/env.toml")]
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate()
    index.close()
    assert process.returncode != 0
    assert "KeyboardInterrupt" in said
    assert left(quick) == [".lock"]


def test_an_interrupt_of_the_hub_alone_ends_its_installer(quick: World, tmp_path: Path) -> None:
    bundle = server_bundle(tmp_path / "words", ["dep"]).path
    process, index = _begun(quick, bundle, "import anyio; anyio.run(anyio.to_thread.run_sync, work)")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    index.close()
    assert process.returncode != 0
    assert left(quick) == [".lock"]


async def test_a_cancelled_install_leaves_nothing(quick: World, tmp_path: Path) -> None:
    index = socket.create_server(("127.0.0.1", 0))
    environ = {**quick.environ, "UV_DEFAULT_INDEX": f"http://127.0.0.1:{index.getsockname()[1]}/"}
    bundle = server_bundle(tmp_path / "words", ["dep"])
    with index, anyio.fail_after(120):
        async with anyio.create_task_group() as group:
            work = partial(install, bundle, ORIGIN, quick.home, environ=environ)
            group.start_soon(anyio.to_thread.run_sync, work)
            connection, _ = await anyio.to_thread.run_sync(index.accept)
            with connection:
                group.cancel_scope.cancel()
    assert left(quick) == [".lock"]


def test_what_a_killed_install_left_is_never_seen_and_goes_with_the_next(quick: World, tmp_path: Path) -> None:
    process, index = _begun(quick, server_bundle(tmp_path / "words", ["dep"]).path)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    index.close()
    assert len(left(quick)) > 5
    assert quick.home.all() == []
    other = quick.install(server_bundle(tmp_path / "other"))
    assert quick.home.all() == [other]
    assert [each.name for each in (quick.home.root / "acme/words").iterdir()] == ["1.2.0"]


async def test_installs_of_one_version_at_once_all_succeed(quick: World, tmp_path: Path) -> None:
    write_wheel(quick.links, "dep", "1.0")
    bundle = server_bundle(tmp_path / "words", ["dep"])
    found: list[str] = []

    def one() -> None:
        there = install(bundle, ORIGIN, quick.home, installer=quick.installer, environ=quick.environ)
        found.append(str(there.python))

    async with anyio.create_task_group() as group:
        for _ in range(4):
            group.start_soon(anyio.to_thread.run_sync, one)
    assert found == [str(quick.home.folder(bundle.release) / "venv/bin/python")] * 4
    assert [each.name for each in quick.home.folder(bundle.release).parent.iterdir()] == ["1.2.0"]


def test_a_version_that_is_replaced_stays_where_the_new_one_fails(quick: World, tmp_path: Path) -> None:
    write_wheel(quick.links, "dep", "1.0")
    bundle = server_bundle(tmp_path / "words", ["dep"])
    first = quick.install(bundle)
    for file in quick.links.iterdir():
        file.unlink()
    with pytest.raises(Exception, match="dep"):
        quick.install(bundle, replace=True)
    assert quick.home.all() == [first]
    assert first.python.exists()
