"""A Ray cluster of this machine, started by a process of its own that gets none of this process's secrets.

Ray hands the variables of the process that starts a cluster on to all its processes, where /proc shows them. The
program (`python -m rollouthub.cluster.local_cluster CPUS`) starts the cluster, writes its address to stdout, and runs
until SIGTERM, under a guard, so that no process of the cluster is left behind however the caller ends.
"""

import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from rollouthub.cluster.connection import connect, import_ray
from rollouthub.engine.pool_options import RayOptions
from rollouthub.errors import UsageError
from rollouthub.processes import PYTHON, guarded, strangers_environment

START_SECONDS = 120.0
STOP_SECONDS = 10.0
_GRACE_SECONDS = 5.0
_LAST_LINES = 3
_TOKENS = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")


def rays_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that a cluster's processes get: none that looks like a secret but Ray's own."""
    return strangers_environment(environ) | {name: value for name, value in environ.items() if name.startswith("RAY_")}


@contextmanager
def local_cluster(cpus: int | None) -> Generator[str]:
    """Start a cluster; it ends with the block. Yields its address. Blocks for seconds. `require_token` comes before.

    Raises:
        UsageError: it does not start.
    """
    command = [*PYTHON, "-m", __name__, *([] if cpus is None else [str(cpus)])]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            guarded(command, _GRACE_SECONDS),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,  # Ctrl-C is the hub's to handle
            cwd=os.path.sep,
            env=rays_environment(os.environ),
        )
        assert process.stdin is not None and process.stdout is not None
        with process.stdout:
            try:
                yield _address(process.stdout, errors)
            finally:
                process.stdin.close()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(STOP_SECONDS)


def _address(stdout: IO[bytes], errors: IO[bytes]) -> str:
    """What the program says once its cluster is up."""
    is_there, _, _ = select.select([stdout], [], [], START_SECONDS)
    address = stdout.readline().decode().strip() if is_there else ""
    if not address:
        errors.seek(0)
        said = errors.read().decode(errors="replace").strip().splitlines()[-_LAST_LINES:]
        raise UsageError(" ".join(said) or f"no Ray cluster was up on this machine after {START_SECONDS:g} s")
    return address


def require_token() -> None:
    """Have clusters that are started here ask for a token, unless the user decided otherwise.

    A cluster listens on all networks of the machine, and every client that reaches it can run code. The token is Ray's
    own: where there is none yet, one is made that only this user can read.

    Raises:
        UsageError: it cannot be written.
    """
    if os.environ.setdefault("RAY_AUTH_MODE", "token") != "token" or any(name in os.environ for name in _TOKENS):
        return
    import secrets

    path = Path.home() / ".ray" / "auth_token"
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        unfinished = path.with_name(f"auth_token.{os.getpid()}.{secrets.token_hex(4)}")
        with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_hex(32))
        with suppress(FileExistsError):
            path.hardlink_to(unfinished)  # whoever is first: all clusters have the same
        unfinished.unlink()
        path.chmod(0o600)  # where Ray made it, others could read it
    except OSError as error:
        raise UsageError(
            f"no token for a Ray cluster can be kept at {path}: {error.strerror}; give one in RAY_AUTH_TOKEN"
        ) from error


def _serve(cpus: int | None) -> None:
    """Run a cluster until SIGTERM."""
    ray = import_ray()
    try:
        connect(ray, RayOptions(), cpus)
    except UsageError as error:
        sys.exit(str(error))
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit())
    sys.stdout.write(f"{ray.get_runtime_context().gcs_address}\n")
    sys.stdout.flush()
    try:
        while True:
            signal.pause()
    finally:
        ray.shutdown()


if __name__ == "__main__":
    _serve(int(sys.argv[1]) if len(sys.argv) > 1 else None)
