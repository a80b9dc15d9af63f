"""A container's files kept at one moment, and others started from them."""

from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from rollouthub.errors import SandboxError
from rollouthub.sandbox import Build, SandboxFileError, SandboxSpec
from rollouthub_sandboxes.docker.provider import DockerProvider, docker_provider
from rollouthub_sandboxes.docker.snapshot import DockerSnapshot
from rollouthub_sandboxes.docker.sweep import sweep
from rollouthub_sandboxes.engine.engine import Engine, EngineError


async def test_the_writable_folders_of_a_read_only_root_are_kept(provider: DockerProvider, spec: SandboxSpec) -> None:
    async with provider.open(spec) as sandbox:
        await sandbox.exec("mkdir -p deep/er empty; echo one > deep/er/file; ln -s deep link; echo two > /tmp/other")
        await sandbox.exec("chmod 750 deep/er/file")
        before = await sandbox.exec("sleep 1000 & echo $!")
        snapshot = await sandbox.snapshot()
        alive = await sandbox.exec(f"kill -0 {before.stdout.text}")
        assert alive.exit_status != 0, "its processes are stopped first"
    assert "/workspace/deep/er/file" in snapshot.changed
    assert "/tmp/other" in snapshot.changed
    async with provider.open(spec, snapshot=snapshot) as restored, provider.open(spec, snapshot=snapshot) as another:
        script = "cat link/er/file /tmp/other; stat -c '%a %u' deep/er/file; test -d empty && rm deep/er/file"
        for sandbox in (restored, another):
            assert (await sandbox.exec(script)).stdout.text == "one\ntwo\n750 65534\n"
    await snapshot.discard()
    await snapshot.discard()


async def test_a_writable_root_is_kept_whole(provider: DockerProvider, spec: SandboxSpec, engine: Engine) -> None:
    spec = spec.model_copy(update={"profile": "root-compat"})
    async with provider.open(spec) as sandbox:
        await sandbox.exec("echo mine > /etc/mine; rm /etc/debian_version; mkdir work; echo w > work/w; useradd bob")
        snapshot = await sandbox.snapshot()
    assert {"/etc/mine", "/etc/debian_version", "/workspace/work/w"} <= set(snapshot.changed)
    assert not any(path.startswith("/.rollouthub") or path == "/etc" for path in snapshot.changed)
    assert isinstance(snapshot, DockerSnapshot)
    assert snapshot.image is not None
    assert snapshot.image not in (await sweep(engine)).images, "its owner lives"
    async with provider.open(spec, snapshot=snapshot) as restored:
        script = "cat /etc/mine work/w; test -e /etc/debian_version || echo gone; id -u bob"
        done = await restored.exec(script)
        assert done.stdout.text == "mine\nw\ngone\n1000\n", done.stderr.text
        assert restored.ref.image == spec.image
        assert (await restored.exec("id -un", user="bob")).stdout.text == "bob\n"
    await snapshot.discard()


async def test_a_provider_discards_its_snapshots_when_it_ends(engine: Engine, spec: SandboxSpec) -> None:
    async with docker_provider() as provider:
        async with provider.open(spec.model_copy(update={"profile": "root-compat"})) as sandbox:
            snapshot = await sandbox.snapshot()
        assert isinstance(snapshot, DockerSnapshot)
        assert snapshot.image is not None
        await engine.call(engine.api.inspect_image, snapshot.image)
    with pytest.raises(EngineError) as caught:
        await engine.call(engine.api.inspect_image, snapshot.image)
    assert caught.value.status in (404, 500), "Podman has 500 for an id that is not there"


async def test_a_discarded_snapshot_is_gone_with_the_last_container_of_it(
    provider: DockerProvider, spec: SandboxSpec, engine: Engine
) -> None:
    if engine.kind == "podman":
        pytest.skip("Podman 4.3 answers 500 where it is asked for an image that is gone")
    spec = spec.model_copy(update={"profile": "root-compat"})
    async with provider.open(spec) as sandbox:
        snapshot = await sandbox.snapshot()
    assert isinstance(snapshot, DockerSnapshot)
    assert snapshot.image is not None
    async with provider.open(spec, snapshot=snapshot):
        await snapshot.discard()  # refused by the engine: it is in use
        await engine.call(engine.api.inspect_image, snapshot.image)
    with anyio.fail_after(60):
        while snapshot.discarded:
            await anyio.lowlevel.checkpoint()
    with pytest.raises(EngineError):
        await engine.call(engine.api.inspect_image, snapshot.image)


async def test_what_changed_in_an_images_volumes_is_told_and_put_back(
    provider: DockerProvider, spec: SandboxSpec, engine: Engine, tmp_path: Path
) -> None:
    if engine.kind == "podman":
        pytest.skip("Podman 4.3 fills a container's volumes by other rules")
    (tmp_path / "Dockerfile").write_text(
        f"FROM {spec.image}\nRUN mkdir /kept && echo 1 > /kept/old && echo 1 > /kept/same\nVOLUME /kept\n"
    )
    build = Build(context=tmp_path)
    spec = spec.model_copy(update={"profile": "root-compat", "image": build})
    async with provider.open(spec) as sandbox:
        await sandbox.exec("echo 2 > /kept/old; echo 2 > /kept/conftest.py")
        snapshot = await sandbox.snapshot()
    restored = await snapshot.restored(["/kept/old"])
    assert {path for path in snapshot.changed if path.startswith("/kept/")} == {"/kept/old", "/kept/conftest.py"}
    assert "/kept/old" not in restored.changed
    for each, there in ((restored, "1"), (snapshot, "2")):
        async with provider.open(spec, snapshot=each) as sandbox:
            assert (await sandbox.exec("cat /kept/*")).stdout.text.split() == ["2", there, "1"]
    await restored.discard()
    async with provider.open(spec, snapshot=snapshot):
        pass  # it is not gone with what was made of it
    await snapshot.discard()


@pytest.mark.parametrize("fake", ["echo no archive", "exit 2", "gzip -c /proc/self/environ"])
async def test_a_tar_of_the_agents_makes_no_snapshot(
    provider: DockerProvider, spec: SandboxSpec, tmp_path: Path, fake: str
) -> None:
    (tmp_path / "Dockerfile").write_text(f"FROM {spec.image}\nVOLUME /kept\n")
    spec = spec.model_copy(update={"profile": "root-compat", "image": Build(context=tmp_path)})
    async with provider.open(spec) as sandbox:
        await sandbox.write_file("/usr/local/bin/tar", f"#!/bin/sh\n{fake}\n".encode(), mode=0o755)
        await sandbox.exec("touch /kept/x; ln -sf /usr/local/bin/tar /bin/tar")
        with pytest.raises(SandboxFileError, match="packed"):
            await sandbox.snapshot()


async def test_a_snapshot_of_another_form_is_refused(provider: DockerProvider, spec: SandboxSpec) -> None:
    async with provider.open(spec) as sandbox:
        snapshot = await sandbox.snapshot()
    with pytest.raises(SandboxError, match="root"):
        async with provider.open(spec.model_copy(update={"profile": "root-compat"}), snapshot=snapshot):
            pass


async def test_paths_are_put_back_to_what_the_image_has_whatever_became_of_them(
    provider: DockerProvider, spec: SandboxSpec
) -> None:
    spec = spec.model_copy(update={"profile": "root-compat"})
    changes = """
        mkdir /opt/x; cp /bin/sh /opt/x/sh; ln -sfn /opt/x /bin; mv /usr/share/base-files /opt/; ln -s /opt /usr/share/base-files
        echo mine > /etc/debian_version; rm /etc/issue; mkdir /etc/issue; echo new > /usr/local/lib/new.so; echo work > work
        touch /srv/x; rm /srv/x
    """  # noqa: E501
    protected = ["/bin", "/usr/share/base-files", "/etc/debian_version", "/etc/issue", "/usr/local/lib/new.so", "/srv"]
    look = "ls -ld /bin /usr/share/base-files | cut -c1; cat /etc/debian_version /etc/issue; ls /usr/local/lib /srv"
    async with provider.open(spec) as sandbox:
        before = (await sandbox.exec(look)).stdout.text
        assert (await sandbox.exec(["/usr/bin/dash", "-c", changes])).exit_status == 0
        snapshot = await sandbox.snapshot()
    restored = await snapshot.restored(protected)
    assert {*protected, "/workspace/work"} - {"/srv"} <= set(snapshot.changed)
    assert "/workspace/work" in restored.changed
    assert not {*protected[:-1]} & set(restored.changed)
    async with provider.open(spec, snapshot=restored) as sandbox:
        assert (await sandbox.exec(look)).stdout.text == before
        assert (await sandbox.exec("cat work")).stdout.text == "work\n"
    await restored.discard()
    await snapshot.discard()


async def test_a_hole_of_terabytes_is_no_snapshot(provider: DockerProvider, spec: SandboxSpec) -> None:
    async with provider.open(spec.model_copy(update={"profile": "root-compat"})) as sandbox:
        await sandbox.exec("truncate -s 3T /opt/hole")
        with anyio.fail_after(60), pytest.raises(SandboxFileError) as raised:
            await sandbox.snapshot()
    assert raised.value.reason == "EDQUOT"


@pytest.mark.parametrize("mark", ["/usr/bin/.wh.grep", "/usr/bin/.wh..wh..opq", "/.wh.etc"])
async def test_no_name_takes_a_file_of_the_image_out_of_a_snapshot(
    provider: DockerProvider, spec: SandboxSpec, mark: str
) -> None:
    async with provider.open(spec.model_copy(update={"profile": "root-compat"})) as sandbox:
        await sandbox.exec("mkdir layer; touch layer/.wh.gone")  # of somebody who unpacked a layer: it hides nothing
        await (await sandbox.snapshot()).discard()
        await sandbox.exec(["touch", mark])
        with pytest.raises(SandboxFileError) as raised:
            await sandbox.snapshot()
    assert raised.value.reason == "EILSEQ"


async def test_a_working_directory_that_became_a_link_is_told(provider: DockerProvider, spec: SandboxSpec) -> None:
    spec = spec.model_copy(update={"profile": "root-compat"})
    async with provider.open(spec) as sandbox:
        await sandbox.exec(f"cd /; mkdir /opt/w; rmdir {sandbox.workdir}; ln -s /opt/w {sandbox.workdir}")
        snapshot = await sandbox.snapshot()
    assert sandbox.workdir in snapshot.changed
    await snapshot.discard()


@pytest.mark.parametrize("broken", ["rm /etc/passwd; mkdir /etc/passwd", "cd /; rmdir /workspace; touch /workspace"])
async def test_files_that_keep_a_container_from_starting_are_no_fault_of_the_engine(
    provider: DockerProvider, spec: SandboxSpec, engine: Engine, broken: str
) -> None:
    if engine.kind == "podman":
        pytest.skip("Podman starts them")
    spec = spec.model_copy(update={"profile": "root-compat"})
    async with provider.open(spec) as sandbox:
        await sandbox.exec(broken)
        snapshot = await sandbox.snapshot()
    with pytest.raises(SandboxFileError, match="no container starts"):
        async with provider.open(spec, snapshot=snapshot):
            pass
    restored = await snapshot.restored([path for path in ("/etc/passwd", "/workspace") if path in snapshot.changed])
    async with provider.open(spec, snapshot=restored) as sandbox:
        assert (await sandbox.exec("pwd")).stdout.text == "/workspace\n"
    await restored.discard()
    await snapshot.discard()
