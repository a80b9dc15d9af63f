"""Podman's Docker-compatible service for tests: its own storage in a folder of its own, with the images they need."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

IMAGE = "debian:bookworm-slim"
START_SECONDS, COPY_SECONDS = 30.0, 300.0

PODMAN = pytest.param("podman", marks=pytest.mark.live)
"""Somebody else's engine: its tests take minutes and bear no second Podman beside them (`-m live -n 0`)."""


class NoPodman(Exception):
    """Podman cannot be tested here, and why."""


@contextmanager
def podman_service() -> Generator[str]:
    """A running service; what DOCKER_HOST is to say. Everything of it is gone afterwards.

    Raises:
        NoPodman: it is not installed, does not start, or has no images to be given.
    """
    if shutil.which("podman") is None:
        raise NoPodman("podman is not installed (apt-get install podman)")
    if os.geteuid() != 0:
        raise NoPodman("podman's service is tested as root alone: without, it may not limit what containers use")
    folder = Path(tempfile.mkdtemp(prefix="rollouthub-podman-"))
    podman = ["podman", "--root", str(folder / "root"), "--runroot", str(folder / "run")]
    try:
        _copy_images(podman)
        with _served(podman, folder) as host:
            yield host
    finally:
        subprocess.run([*podman, "system", "reset", "--force"], capture_output=True, timeout=60, check=False)
        # It leaves its storage mounted on itself.
        subprocess.run(["umount", str(folder / "root" / "overlay")], capture_output=True, timeout=60, check=False)
        shutil.rmtree(folder)


@contextmanager
def _served(podman: list[str], folder: Path) -> Generator[str]:
    socket, log = folder / "socket", folder / "log"
    with log.open("wb") as said:
        service = subprocess.Popen(
            [*podman, "system", "service", "--time=0", f"unix://{socket}"],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            cwd=folder,  # where its monitors note that memory ran out
            start_new_session=True,
        )
    try:
        end = time.monotonic() + START_SECONDS
        while not socket.exists():
            if service.poll() is not None or time.monotonic() > end:
                raise NoPodman(f"podman's service does not start: {log.read_text()[-500:]}")
            time.sleep(0.05)
        yield f"unix://{socket}"
    finally:
        service.terminate()
        try:
            service.wait(timeout=20)
        except subprocess.TimeoutExpired:
            service.kill()
            service.wait()


def _copy_images(podman: list[str]) -> None:
    """From Docker, as there may be no registry to pull them from: the base, and our own base where it is built."""
    try:
        listed = subprocess.run(
            ["docker", "images", "--format", "{{.Repository}}:{{.Tag}}"], capture_output=True, text=True, timeout=30
        )
    except FileNotFoundError as error:
        raise NoPodman("docker is not installed, from which podman is to get its images") from error
    wanted = [name for name in listed.stdout.split() if name == IMAGE or name.startswith("rollouthub/base:")]
    if IMAGE not in wanted:
        raise NoPodman(f"docker has no image {IMAGE!r} to give to podman")
    with subprocess.Popen(["docker", "save", *wanted], stdout=subprocess.PIPE) as saving:
        loaded = subprocess.run([*podman, "load"], stdin=saving.stdout, capture_output=True, timeout=COPY_SECONDS)
    if loaded.returncode:
        raise NoPodman(f"podman does not take images: {loaded.stderr.decode(errors='replace')[-500:]}")
