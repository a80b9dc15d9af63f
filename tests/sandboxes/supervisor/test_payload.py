"""The supervisor's programs: what they are, that they come from their source, and what is said where they do not."""

import hashlib
import shutil
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from rollouthub.errors import SandboxError
from rollouthub_sandboxes.supervisor.compilation import (
    ARCHITECTURES,
    FOLDER,
    CompilationError,
    compile_program,
    has_compiler,
    is_current,
    program_path,
    recorded_digests,
    source_digest,
)
from rollouthub_sandboxes.supervisor.payload import payload, payload_path

ROOT = Path(__file__).parents[3]
MACHINES = {"x86_64": 62, "aarch64": 183}
"""`e_machine` in an ELF header (elf.h: EM_X86_64, EM_AARCH64)."""
PT_LOAD, PT_DYNAMIC, PT_INTERP = 1, 2, 3
CURE = r"build it with `python -m rollouthub_sandboxes\.supervisor\.compilation`"
needs_compiler = pytest.mark.skipif(not has_compiler(), reason="the supervisor's compiler is not installed")


def segments(program: bytes) -> list[int]:
    """The types of a 64-bit ELF's program headers."""
    (start,) = struct.unpack_from("<Q", program, 32)
    size, count = struct.unpack_from("<HH", program, 54)
    return [struct.unpack_from("<I", program, start + number * size)[0] for number in range(count)]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A supervisor's folder with its source and what was built from it."""
    for file in FOLDER.glob("*.[ch]"):
        shutil.copy(file, tmp_path)
    shutil.copytree(FOLDER / "bin", tmp_path / "bin")
    return tmp_path


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_program_in_the_repository_is_that_of_the_source(architecture: str) -> None:
    recorded = recorded_digests(FOLDER, architecture)
    assert recorded["source"] == source_digest(FOLDER), (
        "build it: python -m rollouthub_sandboxes.supervisor.compilation"
    )
    assert recorded["program"] == hashlib.sha256(program_path(FOLDER, architecture).read_bytes()).hexdigest()


@needs_compiler
@pytest.mark.soak
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_anybody_builds_the_same_program_in_another_folder(architecture: str, checkout: Path, tmp_path: Path) -> None:
    shutil.rmtree(checkout / "bin")
    built = compile_program(checkout, architecture, tmp_path / "cache")
    assert built.read_bytes() == payload(architecture)
    assert recorded_digests(checkout, architecture) == recorded_digests(FOLDER, architecture)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_program_is_a_small_static_executable_of_its_machine(architecture: str) -> None:
    program = payload(architecture)
    magic, bits, order = struct.unpack_from("<4sBB", program)
    kind, machine = struct.unpack_from("<HH", program, 16)
    assert (magic, bits, order, kind) == (b"\x7fELF", 2, 1, 2), "64-bit, little endian, at a fixed address"
    assert machine == MACHINES[architecture]
    assert PT_LOAD in segments(program)
    assert not {PT_DYNAMIC, PT_INTERP} & set(segments(program)), "it needs a loader or libraries"
    assert len(program) < 512 * 1024


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_program_lies_where_it_can_be_executed(architecture: str) -> None:
    path = payload_path(architecture)
    assert path.stat().st_mode & 0o111 == 0o111
    assert path.read_bytes() == payload(architecture)


@pytest.mark.parametrize(("alias", "architecture"), [("amd64", "x86_64"), ("arm64", "aarch64"), ("ARM64", "aarch64")])
def test_an_engine_s_word_for_an_architecture_is_understood(alias: str, architecture: str) -> None:
    assert payload_path(alias) == payload_path(architecture)


@pytest.mark.parametrize("architecture", ["riscv64", "", "../x86_64", "x86_64.digests"])
def test_an_unknown_architecture_is_refused_by_name(architecture: str) -> None:
    with pytest.raises(SandboxError) as refused:
        payload(architecture)
    assert repr(architecture) in str(refused.value)
    assert all(name in str(refused.value) for name in ("x86_64", "amd64", "aarch64", "arm64"))
    assert not refused.value.retryable


def test_a_changed_source_is_said(checkout: Path) -> None:
    assert payload("x86_64", checkout) == payload("x86_64")
    with (checkout / "supervisor.c").open("a") as source:
        source.write("/* changed */\n")
    with pytest.raises(SandboxError, match=f"x86_64 is older than its source; {CURE}"):
        payload("x86_64", checkout)


def test_a_new_header_is_a_changed_source(checkout: Path) -> None:
    (checkout / "new.h").write_text("")
    assert not is_current(checkout, "x86_64")


def test_a_program_that_is_not_there_is_said(checkout: Path) -> None:
    shutil.rmtree(checkout / "bin")
    with pytest.raises(SandboxError, match=f"aarch64 is not there; {CURE}"):
        payload("aarch64", checkout)


@needs_compiler
@pytest.mark.soak
def test_a_source_that_does_not_compile_leaves_the_program_and_shows_the_compiler_s_words(
    checkout: Path, tmp_path: Path
) -> None:
    (checkout / "supervisor.c").write_text("int main(void) { return nothing; }\n")
    with pytest.raises(CompilationError, match=r"(?s)for x86_64.*supervisor\.c:1.*nothing"):
        compile_program(checkout, "x86_64", tmp_path / "cache")
    assert (checkout / "bin" / "x86_64").read_bytes() == payload("x86_64")
    assert {file.name for file in (checkout / "bin").iterdir()} == {
        name for architecture in ARCHITECTURES for name in (architecture, f"{architecture}.digests")
    }, "nothing half-made is left behind"


def test_a_wheel_is_made_without_a_compiler_and_holds_every_program_and_its_source(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, env={}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl"), "the programs are for containers, not for the host"
    with zipfile.ZipFile(wheel) as archive:
        within = {name: archive.getinfo(name) for name in archive.namelist() if "/supervisor/" in name}
        base = "rollouthub_sandboxes/supervisor"
        assert archive.read(f"{base}/supervisor.c") == (FOLDER / "supervisor.c").read_bytes()
        for architecture in ARCHITECTURES:
            assert archive.read(f"{base}/bin/{architecture}") == payload(architecture)
            assert within[f"{base}/bin/{architecture}"].external_attr >> 16 & 0o111, "it can be executed"
        unpacked = tmp_path / "unpacked"
        archive.extractall(unpacked)
    assert all(is_current(unpacked / base, architecture) for architecture in ARCHITECTURES)
    assert {Path(name).name for name in within if f"{base}/bin/" in name} == {
        name for architecture in ARCHITECTURES for name in (architecture, f"{architecture}.digests")
    }, "the compiler's cache stays at home"
