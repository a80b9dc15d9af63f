"""The hub's own Ray cluster on this machine, for model servers that are started without naming a cluster.

A background process (`python -m rollouthub.cluster.models.local_head FOLDER`) runs the cluster while a model is served
on it. It holds a lock while it lives, and writes the cluster's address to a file. It runs under a guard, so that no
process is left behind however it ends.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import anyio.to_thread
from filelock import FileLock, Timeout

from rollouthub.cluster.open_cluster import open_cluster
from rollouthub.engine.pool_options import RayOptions
from rollouthub.errors import HubError, UsageError
from rollouthub.event_loop import run_async
from rollouthub.processes import PYTHON, clean_environment, guarded, stat_fields
from rollouthub.store.atomic_files import replace_file
from rollouthub.values import Frozen

START_SECONDS = 120.0
STOP_SECONDS = 30.0
IDLE_SECONDS = 60.0
"""Seconds without a served model after which the cluster ends itself."""
_LOOK_SECONDS = 5.0
_POLL_SECONDS = 0.1
_GRACE_SECONDS = 15.0


class Head(Frozen):
    """The running cluster, as its file describes it."""

    pid: int
    """Process id of the guard."""
    address: str
    auth: str
    """Value of RAY_AUTH_MODE that every process joining the cluster must use."""


def find_head(folder: Path) -> Head | None:
    """The hub's own cluster on this machine; None if it does not run."""
    lock = FileLock(_lock_path(folder))
    if not _lock_path(folder).exists():
        return None
    try:
        with lock.acquire(timeout=0):
            return None  # nobody holds it, so nobody lives
    except Timeout:
        pass
    try:
        return Head.model_validate_json(_head_path(folder).read_bytes())
    except (OSError, ValueError):
        return None  # it is about to start, or about to end


async def ensure_head(folder: Path, note: Callable[[str], None]) -> Head:
    """Find the hub's own Ray cluster on this machine, or start it.

    Raises:
        HubError: it does not start.
    """
    head = find_head(folder)
    if head is not None:
        return head
    note("starting a Ray cluster on this machine, for as long as models are up")
    with suppress(FileNotFoundError):
        _head_path(folder).unlink()
    log = folder / "logs" / "head.log"
    log.parent.mkdir(mode=0o700, exist_ok=True)
    with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as output:
        process = subprocess.Popen(  # noqa: ASYNC220 — it is to outlive this process, and nobody here waits for it
            guarded([*PYTHON, "-m", __name__, str(folder)], _GRACE_SECONDS),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            cwd=os.path.sep,
            env=clean_environment(os.environ) | _rays_own(os.environ),
        )
    try:
        with anyio.move_on_after(START_SECONDS):
            while process.poll() is None:
                if (head := find_head(folder)) is not None:
                    return head
                await anyio.sleep(_POLL_SECONDS)
    except BaseException:
        process.terminate()
        raise
    process.terminate()
    said = log.read_text(errors="replace").strip().splitlines()[-15:]
    raise HubError(f"no Ray cluster came up on this machine; {log} ends with:\n" + "\n".join(said))


async def stop_head(folder: Path) -> None:
    """Stop the hub's own cluster, with everything in it; does nothing if it does not run.

    Raises:
        HubError: it does not end in time.
    """
    head = find_head(folder)
    if head is None:
        return
    with suppress(ProcessLookupError):
        os.kill(head.pid, signal.SIGTERM)
    with anyio.move_on_after(STOP_SECONDS):
        while _is_running(head.pid):  # noqa: ASYNC110 — it is nobody's child here
            await anyio.sleep(_POLL_SECONDS)
        return
    raise HubError(f"the Ray cluster of process {head.pid} has not ended within {STOP_SECONDS:g} s of SIGTERM")


@asynccontextmanager
async def changing(folder: Path) -> AsyncGenerator[None]:
    """Hold the lock under which models and the cluster are started and stopped.

    Raises:
        UsageError: another process held it for minutes.
    """
    lock = FileLock(folder / "changing.lock", thread_local=False)
    with anyio.move_on_after(START_SECONDS):
        while True:
            with suppress(Timeout):
                lock.acquire(timeout=0)
                break
            await anyio.sleep(_POLL_SECONDS)
    if not lock.is_locked:
        raise UsageError(f"another `hub model` is at work in {folder} and does not end; look for it, and try again")
    try:
        yield
    finally:
        lock.release()


def _is_running(pid: int) -> bool:
    try:
        return stat_fields(pid)[0] != "Z"
    except OSError:
        return False


def _rays_own(environ: Mapping[str, str]) -> dict[str, str]:
    """Variables with Ray's authentication token, which the cluster shares with processes that join it."""
    return {name: environ[name] for name in ("RAY_AUTH_TOKEN",) if name in environ}


def _lock_path(folder: Path) -> Path:
    return folder / "head.lock"


def _head_path(folder: Path) -> Path:
    return folder / "head.here"


async def serve(folder: Path) -> None:
    """Run the cluster until SIGTERM, or until no model has been served on it for `IDLE_SECONDS`."""
    auth = os.environ.setdefault("RAY_AUTH_MODE", "token")  # it lives long, on a machine others may use
    lock = FileLock(_lock_path(folder), mode=0o600)
    with lock.acquire(timeout=0):
        async with open_cluster(RayOptions()) as cluster:
            from rollouthub.cluster.models.actors import models_kept

            address = str(cluster.ray.get_runtime_context().gcs_address)
            head = Head(pid=os.getppid(), address=address, auth=auth)
            path = _head_path(folder)
            replace_file(path, head.model_dump_json().encode(), is_private=True)
            try:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(_end_on_signal, tasks.cancel_scope)
                    used = time.monotonic()
                    while time.monotonic() - used < IDLE_SECONDS:
                        if await anyio.to_thread.run_sync(models_kept):
                            used = time.monotonic()
                        await anyio.sleep(_LOOK_SECONDS)
                    tasks.cancel_scope.cancel()
            finally:
                path.unlink(missing_ok=True)


async def _end_on_signal(everything: anyio.CancelScope) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            everything.cancel()
            return


if __name__ == "__main__":
    run_async(serve, Path(sys.argv[1]))
