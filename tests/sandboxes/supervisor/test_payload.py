"""The supervisor's programs: what they are, where they come from, and what is said where there is none."""

import shutil
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import anyio
import pytest
from anyio import to_thread

from envhub.errors import SandboxError
from envhub_sandboxes.supervisor.compilation import ARCHITECTURES, is_current
from envhub_sandboxes.supervisor.payload import FOLDER, payload, payload_path, source_digest

# Compiling for another machine than this one takes a minute, and whoever needs the program here waits for it.
pytestmark = pytest.mark.soak
ROOT = Path(__file__).parents[3]
MACHINES = {"x86_64": 62, "aarch64": 183}
"""`e_machine` in an ELF header (elf.h: EM_X86_64, EM_AARCH64)."""
PT_LOAD, PT_DYNAMIC, PT_INTERP = 1, 2, 3


def segments(program: bytes) -> list[int]:
    """The types of a 64-bit ELF's program headers."""
    (start,) = struct.unpack_from("<Q", program, 32)
    size, count = struct.unpack_from("<HH", program, 54)
    return [struct.unpack_from("<I", program, start + number * size)[0] for number in range(count)]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A supervisor's folder with its source and what was built from it."""
    for architecture in ARCHITECTURES:
        payload_path(architecture)
    for file in FOLDER.glob("*.[ch]"):
        shutil.copy(file, tmp_path)
    shutil.copytree(FOLDER / "bin", tmp_path / "bin", ignore=shutil.ignore_patterns(".*"))
    return tmp_path


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
    assert path.stat().st_mode & 0o777 == 0o755
    assert path.read_bytes() == payload(architecture)


@pytest.mark.parametrize(("alias", "architecture"), [("amd64", "x86_64"), ("arm64", "aarch64"), ("ARM64", "aarch64")])
def test_an_engine_s_word_for_an_architecture_is_understood(alias: str, architecture: str) -> None:
    assert payload_path(alias) == payload_path(architecture)


@pytest.mark.parametrize("architecture", ["riscv64", "", "../x86_64", "x86_64.source"])
def test_an_unknown_architecture_is_refused_by_name(architecture: str) -> None:
    with pytest.raises(SandboxError) as refused:
        payload(architecture)
    assert repr(architecture) in str(refused.value)
    assert all(name in str(refused.value) for name in ("x86_64", "amd64", "aarch64", "arm64"))
    assert not refused.value.retryable


def test_what_is_current_needs_no_compiler(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ziglang", None)
    assert payload("x86_64", checkout) == payload("x86_64")
    assert source_digest(checkout) == source_digest()


def test_a_changed_source_without_a_compiler_is_said(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ziglang", None)
    with (checkout / "supervisor.c").open("a") as source:
        source.write("/* changed */\n")
    assert source_digest(checkout) != source_digest()
    with pytest.raises(SandboxError, match=r"older than its source; run `pip install -e \.`"):
        payload("x86_64", checkout)


def test_a_new_header_is_a_changed_source(checkout: Path) -> None:
    before = source_digest(checkout)
    (checkout / "new.h").write_text("")
    assert source_digest(checkout) != before
    assert not is_current(checkout, "x86_64")


def test_a_program_that_was_never_built_is_said(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ziglang", None)
    shutil.rmtree(checkout / "bin")
    with pytest.raises(SandboxError, match=r"not built; run `pip install -e \.`"):
        payload("aarch64", checkout)


async def test_a_changed_source_is_compiled_once_for_all_who_ask(checkout: Path) -> None:
    (checkout / "supervisor.c").write_text("int main(void) { return 42; }\n")
    seen: list[tuple[int, bytes]] = []

    async def ask() -> None:
        path = await to_thread.run_sync(payload_path, "x86_64", checkout)
        seen.append((path.stat().st_mtime_ns, path.read_bytes()))

    async with anyio.create_task_group() as group:
        for _ in range(4):
            group.start_soon(ask)
    assert len(set(seen)) == 1
    assert seen[0][1] != payload("x86_64")
    assert is_current(checkout, "x86_64") and not is_current(checkout, "aarch64")
    assert {file.name for file in (checkout / "bin").iterdir()} - {".lock"} == {
        name for architecture in ARCHITECTURES for name in (architecture, f"{architecture}.source")
    }, "nothing half-made is left behind"


def test_a_source_that_does_not_compile_shows_the_compiler_s_words(checkout: Path) -> None:
    before = (checkout / "bin" / "x86_64").read_bytes()
    (checkout / "supervisor.c").write_text("int main(void) { return nothing; }\n")
    with pytest.raises(SandboxError, match=r"(?s)x86_64 is older than its source.*supervisor\.c:1.*nothing"):
        payload("x86_64", checkout)
    assert (checkout / "bin" / "x86_64").read_bytes() == before


def test_a_wheel_holds_every_program_and_its_source(tmp_path: Path) -> None:
    programs = {architecture: payload(architecture) for architecture in ARCHITECTURES}
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl"), "the programs are for containers, not for the host"
    with zipfile.ZipFile(wheel) as archive:
        within = {name: archive.getinfo(name) for name in archive.namelist() if "/supervisor/" in name}
        base = "envhub_sandboxes/supervisor"
        assert archive.read(f"{base}/supervisor.c") == (FOLDER / "supervisor.c").read_bytes()
        for architecture, program in programs.items():
            assert archive.read(f"{base}/bin/{architecture}") == program
            assert within[f"{base}/bin/{architecture}"].external_attr >> 16 & 0o111, "it can be executed"
        unpacked = tmp_path / "unpacked"
        archive.extractall(unpacked)
    assert all(is_current(unpacked / base, architecture) for architecture in ARCHITECTURES)
    assert {Path(name).name for name in within if f"{base}/bin/" in name} == {
        name for architecture in ARCHITECTURES for name in (architecture, f"{architecture}.source")
    }, "the compiler's cache and locks stay at home"
