"""Where a container's folders are and who runs in it, worked out without an engine."""

import pytest

from rollouthub.errors import ConfigError
from rollouthub.sandbox import Profile, Resources, SandboxSpec
from rollouthub_sandboxes.docker.container import arguments
from rollouthub_sandboxes.docker.container_layout import NOBODY, ROOT, Image, layout

PLAIN = Image("sha256:1", "plain")


def test_a_plain_image_gets_a_workspace_in_memory_and_nobody_in_it() -> None:
    plan = layout(SandboxSpec(), PLAIN)
    assert plan.workdir == "/workspace"
    assert plan.first_user == plan.user == NOBODY
    assert plan.memory_folders == ("/workspace", "/tmp")
    assert not plan.has_writable_root


def test_an_images_own_workdir_and_volumes_start_with_what_it_has_there() -> None:
    plan = layout(SandboxSpec(), Image("sha256:1", workdir="/app", volumes=("/data",)))
    assert plan.memory_folders == ("/app", "/tmp", "/data")
    assert plan.seeded == ("/app", "/data")


def test_scratch_folders_start_empty() -> None:
    plan = layout(SandboxSpec(scratch=("/tmp", "/app")), Image("sha256:1", workdir="/app"))
    assert plan.seeded == ()


@pytest.mark.parametrize(
    ("profile", "user", "images", "first", "commands"),
    [
        ("hardened", None, "alice", NOBODY, NOBODY),
        ("hardened", "bob", "alice", "bob", "bob"),
        ("root-compat", None, "", ROOT, ROOT),
        ("root-compat", None, "alice", ROOT, "alice"),
        ("root-compat", "bob", "alice", ROOT, "bob"),
        ("root-compat", "root", "alice", ROOT, ROOT),
    ],
)
def test_who_commands_run_as(profile: Profile, user: str | None, images: str, first: str, commands: str) -> None:
    plan = layout(SandboxSpec(profile=profile, user=user), Image("sha256:1", user=images))
    assert (plan.first_user, plan.user) == (first, commands)


@pytest.mark.parametrize(
    "path", ["work", "/a/../b", "/", "/proc/x", "/sys", "/dev/shm", "/.rollouthub", "/a:b", "/a,b"]
)
def test_a_folder_that_cannot_be_one_is_refused_by_name(path: str) -> None:
    with pytest.raises(ConfigError, match="workdir"):
        layout(SandboxSpec(workdir=path), PLAIN)
    with pytest.raises(ConfigError, match="scratch"):
        layout(SandboxSpec(scratch=(path,)), PLAIN)


def test_the_walls_of_a_hardened_container() -> None:
    spec = SandboxSpec(resources=Resources(cpus=0.5, memory_bytes=64 << 20, pids=32, disk_bytes=8 << 20))
    config = arguments(spec, PLAIN, layout(spec, PLAIN), labels={"rollouthub": "1"}, volume="v")
    walls = config["HostConfig"]
    assert config["Image"] == PLAIN.id
    # The supervisor starts as root and takes ids of its own; commands run as nobody, without capabilities.
    assert (config["User"], config["OpenStdin"], config["StdinOnce"]) == ("0:0", True, True)
    assert NOBODY in config["Cmd"]
    assert (walls["CapDrop"], walls["NetworkMode"]) == (["ALL"], "none")
    assert sorted(walls["CapAdd"]) == ["KILL", "SETGID", "SETPCAP", "SETUID"]
    assert walls["SecurityOpt"] == ["no-new-privileges"]
    assert (walls["ReadonlyRootfs"], walls["Privileged"], walls["AutoRemove"]) == (True, False, True)
    assert walls["Memory"] == walls["MemorySwap"] == 64 << 20
    assert (walls["PidsLimit"], walls["NanoCpus"]) == (32, 500_000_000)
    assert walls["LogConfig"] == {"Type": "none"}
    assert "OomKillDisable" not in walls
    assert all(
        {"nosuid", "nodev", "mode=1777", f"size={8 << 20}"} <= set(o.split(",")) for o in walls["Tmpfs"].values()
    )
    assert walls["Mounts"][0]["ReadOnly"] is True


def test_root_compat_adds_six_capabilities_and_a_writable_root() -> None:
    spec = SandboxSpec(profile="root-compat")
    walls = arguments(spec, PLAIN, layout(spec, PLAIN), labels={}, volume="v", has_quota=True)["HostConfig"]
    assert walls["CapDrop"] == ["ALL"]
    assert sorted(walls["CapAdd"]) == ["CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETPCAP", "SETUID"]
    assert (walls["ReadonlyRootfs"], walls["Tmpfs"]) == (False, {})
    assert walls["StorageOpt"] == {"size": str(spec.resources.disk_bytes)}
