"""Having an image on a real engine."""

import io
import secrets
import subprocess
import sys
import tarfile
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from rollouthub.errors import ConfigError, SandboxError
from rollouthub.sandbox import Build
from rollouthub_sandboxes.engine.engine import Engine
from rollouthub_sandboxes.images import FromMap, Images, ensure_image
from rollouthub_sandboxes.images.stream import BuildFailed

PLAIN = "FROM scratch\nCOPY . /files\n"


def write(folder: Path, **files: str) -> Build:
    for name, text in files.items():
        path = folder / name.replace("__", ".")
        path.write_text(text)
    return Build(context=folder)


async def built(
    engine: Engine, build: Build, cache: Path, rules: dict[str, str] | None = None, say: list[str] | None = None
) -> str:
    listen = None if say is None else say.append
    had = await ensure_image(engine, build, from_map=FromMap(rules or {}), cache=cache, say=listen)
    return had.reference


async def files_of(engine: Engine, image: str) -> dict[str, tuple[int, bytes]]:
    """What an image has below /files: mode and content, by name."""
    made = await engine.call(engine.api.create_container_from_config, {"Image": image, "Cmd": ["/none"]})
    try:
        chunks, _ = await engine.call(engine.api.get_archive, made["Id"], "/files")
        data = io.BytesIO(b"".join(chunks))
    finally:
        await engine.call(engine.api.remove_container, made["Id"], force=True)
    found: dict[str, tuple[int, bytes]] = {}
    with tarfile.open(fileobj=data) as tar:
        for entry in tar.getmembers():
            file = tar.extractfile(entry) if entry.isreg() else None
            found[entry.name.removeprefix("files").lstrip("/")] = (entry.mode & 0o777, file.read() if file else b"")
    return found


async def test_the_same_content_is_built_once_and_another_one_anew(
    engine: Engine, folder: Path, tmp_path: Path
) -> None:
    build = write(folder, Dockerfile=PLAIN, note="one")
    said: list[str] = []
    first = await built(engine, build, tmp_path, say=said)
    assert any(line.startswith(("Step 1/", "STEP 1/")) for line in said)
    said.clear()
    assert await built(engine, build, tmp_path, say=said) == first
    assert said == []
    (folder / "note").write_text("two")
    assert await built(engine, build, tmp_path) != first


async def test_a_step_that_runs_and_fails_shows_what_it_said(engine: Engine, folder: Path, tmp_path: Path) -> None:
    base = (await ensure_image(engine, None)).reference
    build = write(folder, Dockerfile="FROM nowhere.invalid/a\nRUN echo all went well; echo not at all >&2; exit 3\n")
    with pytest.raises(BuildFailed, match="exit 3") as caught:
        await built(engine, build, tmp_path, {"nowhere.invalid/a*": base})
    assert "all went well" in str(caught.value)
    assert "not at all" in str(caught.value)


async def test_a_build_reaches_the_network_it_is_given(engine: Engine, folder: Path, tmp_path: Path) -> None:
    base = (await ensure_image(engine, None)).reference
    ways = "FROM nowhere.invalid/a\nRUN mkdir -p /files && ls /sys/class/net > /files/ways\n"
    build = write(folder, Dockerfile=ways)
    rules = {"nowhere.invalid/a*": base}
    alone = await built(engine, build.model_copy(update={"network": "none"}), tmp_path, rules)
    assert (await files_of(engine, alone))["ways"][1].split() == [b"lo"]
    bridged = await built(engine, build, tmp_path, rules)
    assert bridged != alone
    assert len((await files_of(engine, bridged))["ways"][1].split()) > 1


async def test_a_build_that_fails_without_a_network_names_the_flag(
    engine: Engine, folder: Path, tmp_path: Path
) -> None:
    base = (await ensure_image(engine, None)).reference
    build = write(folder, Dockerfile="FROM nowhere.invalid/a\nRUN exit 3\n").model_copy(update={"network": "none"})
    with pytest.raises(BuildFailed, match="--build-network bridge"):
        await built(engine, build, tmp_path, {"nowhere.invalid/a*": base})


async def test_a_cancelled_build_is_stopped_on_the_engine(engine: Engine, folder: Path, tmp_path: Path) -> None:
    base = (await ensure_image(engine, None)).reference
    mark = f"sleep 1000.{secrets.randbelow(1 << 30)}"
    build = write(folder, Dockerfile=f"FROM nowhere.invalid/a\nRUN echo started && {mark}\n")
    has_started = anyio.Event()

    async def steps() -> list[str]:
        running = await engine.call(engine.api.containers)
        return [container["Id"] for container in running if mark in str(container["Command"])]

    def hear(line: str) -> None:
        if line == "started":
            has_started.set()

    images = Images(engine, from_map=FromMap({"nowhere.invalid/a*": base}), cache=tmp_path, say=hear)
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(images.ensure, build)
            await has_started.wait()
            while not await steps():
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
        while await steps():
            await anyio.lowlevel.checkpoint()


async def test_names_modes_arguments_and_empty_folders_are_content_and_times_are_not(
    engine: Engine, folder: Path, tmp_path: Path
) -> None:
    build = write(folder, Dockerfile=PLAIN, note="one")
    seen = [await built(engine, build, tmp_path)]
    (folder / "note").touch()
    (folder / "Dockerfile").chmod(0o600)
    assert await built(engine, build, tmp_path) == seen[0]
    (folder / "note").chmod(0o755)
    seen.append(await built(engine, build, tmp_path))
    (folder / "note").rename(folder / "letter")
    seen.append(await built(engine, build, tmp_path))
    (folder / "empty").mkdir()
    seen.append(await built(engine, build, tmp_path))
    seen.append(await built(engine, build.model_copy(update={"arguments": {"A": "1"}}), tmp_path))
    assert len(set(seen)) == len(seen)


async def test_ignored_files_are_neither_sent_nor_content(engine: Engine, folder: Path, tmp_path: Path) -> None:
    build = write(folder, Dockerfile=PLAIN, __dockerignore="secret*\n# a remark\n!secret.public\n", kept="yes")
    write(folder, secret__key="hidden", secret__public="shown")
    image = await built(engine, build, tmp_path)
    files = await files_of(engine, image)
    assert "secret.key" not in files
    assert files["secret.public"][1] == b"shown"
    (folder / "secret.key").write_text("changed")
    assert await built(engine, build, tmp_path) == image


async def test_modes_and_links_reach_the_image(engine: Engine, folder: Path, tmp_path: Path) -> None:
    build = write(folder, Dockerfile=PLAIN, script="#!/bin/sh\n")
    (folder / "script").chmod(0o750)
    (folder / "link").symlink_to("script")
    files = await files_of(engine, await built(engine, build, tmp_path))
    assert files["script"] == (0o750, b"#!/bin/sh\n")
    assert "link" in files


async def test_a_mapped_base_is_used_recorded_and_part_of_the_content(
    engine: Engine, folder: Path, tmp_path: Path
) -> None:
    base = await built(engine, write(folder, Dockerfile=PLAIN), tmp_path)
    (folder / "salt").write_text("another base")
    other = await built(engine, Build(context=folder), tmp_path)
    child = folder / "child"
    child.mkdir()
    build = write(child, Dockerfile="FROM nowhere.invalid/python:3.12-slim AS one\nCOPY Dockerfile /child\n")
    had = await ensure_image(engine, build, from_map=FromMap({"nowhere.invalid/python:3.1*": base}), cache=tmp_path)
    assert had.replaced == {"nowhere.invalid/python:3.12-slim": base}
    assert had.notes == (f"the image {base} stands in for nowhere.invalid/python:3.12-slim",)
    assert "salt" in await files_of(engine, had.reference)
    again = await ensure_image(engine, build, from_map=FromMap({"nowhere.invalid/python:3.1*": other}), cache=tmp_path)
    assert again.reference != had.reference


async def test_a_dockerfile_that_was_rewritten_does_not_show_in_the_image(
    engine: Engine, folder: Path, tmp_path: Path
) -> None:
    base = await built(engine, write(folder, Dockerfile="FROM scratch\nCOPY salt /salt\n"), tmp_path)
    text = "FROM nowhere.invalid/a\nCOPY . /files\n"
    image = await built(engine, write(folder, Dockerfile=text), tmp_path, {"nowhere.invalid/a:latest": base})
    files = await files_of(engine, image)
    assert files["Dockerfile"][1] == text.encode()
    assert not [name for name in files if name.startswith(".")]


async def test_an_image_that_is_there_is_taken_before_the_table_is_asked(
    engine: Engine, folder: Path, tmp_path: Path
) -> None:
    image = await built(engine, write(folder, Dockerfile=PLAIN), tmp_path)
    had = await ensure_image(engine, image, from_map=FromMap({"rollouthub/*": "nowhere.invalid/x"}), cache=tmp_path)
    assert (had.reference, had.replaced) == (image, {})
    assert had.digest.startswith("sha256:")


async def test_the_table_serves_images_asked_for_by_name(engine: Engine, folder: Path, tmp_path: Path) -> None:
    image = await built(engine, write(folder, Dockerfile=PLAIN), tmp_path)
    had = await ensure_image(
        engine, "nowhere.invalid/ubuntu:24.04", from_map=FromMap({"*ubuntu:*": image}), cache=tmp_path
    )
    assert had.replaced == {"nowhere.invalid/ubuntu:24.04": image}


async def test_an_image_that_cannot_be_had_says_what_could_be_done(engine: Engine, tmp_path: Path) -> None:
    rules = FromMap({}, tmp_path / "images.toml")
    with pytest.raises(SandboxError, match="cannot be pulled") as caught:
        await ensure_image(engine, "nowhere.invalid/python:3", from_map=rules, cache=tmp_path)
    said = str(caught.value)
    assert "nowhere.invalid/python:3" in said
    assert str(tmp_path / "images.toml") in said
    assert "hub images build" in said


async def test_a_failing_step_is_named_with_the_last_lines(engine: Engine, folder: Path, tmp_path: Path) -> None:
    build = write(folder, Dockerfile="FROM scratch\nCOPY . /files\nCOPY missing.txt /x\n")
    with pytest.raises(BuildFailed, match=r"missing\.txt") as caught:
        await built(engine, build, tmp_path)
    assert str(folder) in str(caught.value)
    assert "COPY . /files" in str(caught.value)
    assert not caught.value.retryable


async def test_a_build_has_a_deadline(engine: Engine, folder: Path, tmp_path: Path) -> None:
    build = write(folder, Dockerfile=PLAIN).model_copy(update={"timeout_seconds": 0.001})
    with pytest.raises(SandboxError, match=r"not built within 0\.001 s"):
        await built(engine, build, tmp_path)


@pytest.mark.parametrize("name", ["Missing", "../Dockerfile"])
async def test_a_dockerfile_that_is_not_there_or_outside_is_refused(
    engine: Engine, folder: Path, tmp_path: Path, name: str
) -> None:
    (folder.parent / "Dockerfile").write_text(PLAIN)
    with pytest.raises(ConfigError, match=r"no 'Missing'|outside of"):
        await built(engine, Build(context=folder, dockerfile=name), tmp_path)


async def test_what_is_to_stand_in_must_be_there_itself(engine: Engine, folder: Path, tmp_path: Path) -> None:
    build = write(folder, Dockerfile="FROM nowhere.invalid/a\n")
    with pytest.raises(SandboxError, match=r"'nowhere\.invalid/b' \(it stands in for 'nowhere\.invalid/a'\)"):
        await built(engine, build, tmp_path, {"nowhere.invalid/a": "nowhere.invalid/b"})


async def test_many_tasks_that_want_an_image_build_it_once(engine: Engine, folder: Path, tmp_path: Path) -> None:
    build = write(folder, Dockerfile=PLAIN)
    said: list[str] = []
    images = Images(engine, from_map=FromMap(), cache=tmp_path, say=said.append)
    had: list[str] = []

    async def want() -> None:
        had.append((await images.ensure(build)).reference)

    async with anyio.create_task_group() as group:
        for _ in range(8):
            group.start_soon(want)
    assert len(set(had)) == 1
    assert sum(line.lower().startswith("step 1/") for line in said) == 1


ANOTHER_HUB = """
import sys
from pathlib import Path
import anyio
from rollouthub.sandbox import Build
from rollouthub_sandboxes.engine.engine import connect_engine
from rollouthub_sandboxes.images import FromMap, ensure_image

async def main() -> None:
    async with connect_engine() as engine:
        build = Build(context=Path(sys.argv[1]))
        await ensure_image(engine, build, from_map=FromMap(), cache=Path(sys.argv[2]), say=print)

anyio.run(main)
"""


async def test_two_hubs_that_want_an_image_build_it_once(engine: Engine, folder: Path, tmp_path: Path) -> None:
    write(folder, Dockerfile=PLAIN)
    outputs: list[str] = []

    async def run_hub() -> None:
        command = [sys.executable, "-c", ANOTHER_HUB, str(folder), str(tmp_path / "cache")]
        done = await anyio.run_process(command, stderr=subprocess.STDOUT)
        outputs.append(done.stdout.decode())

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            for _ in range(2):
                group.start_soon(run_hub)
    assert sorted(bool(output.strip()) for output in outputs) == [False, True]
