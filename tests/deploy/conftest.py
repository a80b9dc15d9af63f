"""Images built from the working tree, once for all tests that need them, and gone afterwards."""

import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "examples" / "deploy"
BASE = "debian:bookworm-slim"
SITE_CA = "/etc/site-ca.crt"


@dataclass(frozen=True)
class Images:
    """The names of the images under test."""

    hub: str
    environment: str


def docker(*arguments: str, data: bytes | None = None, code: int = 0) -> str:
    """A command of the container engine's; its output."""
    environment = os.environ | {"DOCKER_BUILDKIT": "0"}
    done = subprocess.run(["docker", *arguments], input=data, env=environment, capture_output=True, check=False)
    assert done.returncode == code, done.stdout.decode()[-4000:] + done.stderr.decode()[-4000:]
    return done.stdout.decode()


def _context() -> bytes:
    """What git knows of the working tree, as a build context."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    with io.BytesIO() as packed:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive:
            for name in listed.split("\0"):
                if name and (ROOT / name).exists() and not name.startswith(("tests/", "docs/")):
                    archive.add(ROOT / name, name)
        return packed.getvalue()


def _build_base(tag: str, folder: Path) -> None:
    """The base image with this machine's way to its packages in: only what builds is made from it."""
    lines = [f"FROM {BASE}"]
    certificates = os.environ.get("PIP_CERT") or os.environ.get("SSL_CERT_FILE")
    if certificates:
        shutil.copy(certificates, folder / "ca.crt")
        lines += [f"COPY ca.crt {SITE_CA}", f"ENV PIP_CERT={SITE_CA}"]
    if index := os.environ.get("PIP_INDEX_URL"):
        lines.append(f"ENV PIP_INDEX_URL={index}")
    (folder / "Dockerfile").write_text("\n".join(lines) + "\n")
    docker("build", "-q", "-t", tag, str(folder))


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> Generator[Images]:
    """Both images, built as the Dockerfile says."""
    if shutil.which("docker") is None or subprocess.run(["docker", "info"], capture_output=True).returncode:
        pytest.skip("no container engine answers")
    tags = [f"rollouthub-test-{os.getpid()}-{name}" for name in ("base", "build", "hub", "environment")]
    base, build, hub, environment = tags
    try:
        _build_base(base, tmp_path_factory.mktemp("base"))
        context = _context()
        arguments = ["--build-arg", f"BASE={BASE}", "--build-arg", f"BUILD_BASE={base}", "--network", "host"]
        for target, tag in (
            ("build", build),
            ("hub", hub),
            ("environment", environment),
        ):  # `build`, to be removed, too
            docker(
                "build",
                *arguments,
                "-f",
                "examples/deploy/Dockerfile",
                "--target",
                target,
                "-t",
                tag,
                "-",
                data=context,
            )
        yield Images(hub, environment)
    finally:
        subprocess.run(["docker", "rmi", *tags[::-1]], capture_output=True, check=False)
