"""A container's isolation: what a spec asks of the engine, and what the engine reports that it set up."""

from collections.abc import Mapping
from typing import Any

from rollouthub.errors import ConfigError
from rollouthub.sandbox import MIB, Resources, SandboxRef, SandboxSpec
from rollouthub_sandboxes.docker.container_layout import ROOT, SUPERVISOR_FOLDER, Image, Layout
from rollouthub_sandboxes.engine.api import Json
from rollouthub_sandboxes.engine.engine import Engine

SUPERVISOR = f"{SUPERVISOR_FOLDER}/supervisor"
ROOT_CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETUID")
_NUMBERS = {"CHOWN": 0, "DAC_OVERRIDE": 1, "FOWNER": 3, "KILL": 5, "SETGID": 6, "SETUID": 7}
SUPERVISOR_CAPABILITIES = ("KILL", "SETGID", "SETPCAP", "SETUID")
"""What the supervisor needs to switch to its own user id, kill commands, and drop all capabilities but the
profile's.
"""
SUPERVISOR_ID = 65_431
"""User and group id of the supervisor, which takes the next number, too; no image known to us has a user with
either.
"""
SHARED_MEMORY_BYTES = 64 << 20
_BESIDE = "container:"
_MOST = {"core": 0}
_PODMANS_MOST = _MOST | {"nofile": 16_384, "nproc": 32_768}
"""Resource limits for Podman, which would otherwise raise them to a million and more; only a privileged service may
do that.
"""
MEMORY_OPTIONS = "rw,nosuid,nodev,exec,mode=1777"

SHARES_KERNEL = "shares the machine's kernel"
MEMORY_FOLDERS = "files in writable folders count as memory"
ROOT_IS_ROOT = "root in it is the machine's root, without most capabilities"
NO_QUOTA = "what is written to its root is measured every few seconds, not bounded as it is written"
REACHES_NEIGHBOURS = "reaches the machine and other containers on the bridge"
PODMANS_FOLDERS = "/run and /var/tmp are writable too: Podman has it so on a read-only root"
SWAP = "the engine cannot bound swap"


def arguments(
    spec: SandboxSpec,
    image: Image,
    plan: Layout,
    *,
    labels: Mapping[str, str],
    volume: str | None,
    has_quota: bool = False,
) -> Json:
    """The body of `POST /containers/create`; without `volume` (the supervisor's) the caller must set another
    entrypoint.
    """
    environment = dict(spec.environment)
    if plan.home:
        environment["HOME"] = plan.home
    return {
        "Image": image.id,
        "Entrypoint": [SUPERVISOR],
        "Cmd": _orders(spec, plan) if volume else [],
        "User": ROOT if volume else plan.first_user,
        "WorkingDir": plan.workdir,
        "Env": [f"{name}={value}" for name, value in environment.items()],
        "Labels": dict(labels),
        "OpenStdin": True,
        "StdinOnce": True,
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "Tty": False,
        "StopSignal": "SIGKILL",  # the supervisor heeds no other; an engine that stops then waits for none of them
        "Healthcheck": {"Test": ["NONE"]},
        "HostConfig": _walls(spec, plan, volume, has_quota),
    }


def _orders(spec: SandboxSpec, plan: Layout) -> list[str]:
    """The supervisor's arguments: the user that commands run as, its own id, and the capabilities that commands
    keep.
    """
    kept = sum(1 << _NUMBERS[name] for name in _capabilities(spec))
    ids = ["--as", plan.first_user, "--own-id", str(SUPERVISOR_ID)]
    return ["--filter", *ids, "--capabilities", f"{kept:x}"]


def _capabilities(spec: SandboxSpec) -> tuple[str, ...]:
    """The capabilities of commands that run as root."""
    return ROOT_CAPABILITIES if spec.profile == "root-compat" else ()


def _walls(spec: SandboxSpec, plan: Layout, volume: str | None, has_quota: bool) -> Json:
    resources = spec.resources
    walls: dict[str, Any] = {
        "NetworkMode": spec.network if spec.beside is None else f"{_BESIDE}{spec.beside}",
        "CapDrop": ["ALL"],
        "CapAdd": sorted({*_capabilities(spec), *(SUPERVISOR_CAPABILITIES if volume else ())}),
        "SecurityOpt": ["no-new-privileges"],
        "Privileged": False,
        "ReadonlyRootfs": not plan.has_writable_root,
        "IpcMode": "private",
        "Memory": resources.memory_bytes,
        "MemorySwap": resources.memory_bytes,
        "PidsLimit": resources.pids,
        "NanoCpus": int(resources.cpus * 1e9),
        "ShmSize": min(SHARED_MEMORY_BYTES, resources.disk_bytes),
        "Ulimits": [
            {"Name": name, "Soft": most, "Hard": most}
            for name, most in (_PODMANS_MOST if plan.is_podmans else _MOST).items()
        ],
        "Tmpfs": dict.fromkeys(plan.memory_folders, _memory_options(plan, resources.disk_bytes)),
        "LogConfig": {"Type": "none"},
        "AutoRemove": True,
        "RestartPolicy": {"Name": "no"},
    }
    if spec.loopback_names:
        walls["ExtraHosts"] = [f"{name}:127.0.0.1" for name in spec.loopback_names]
    if resources.gpus:
        walls["DeviceRequests"] = [{"Driver": "", "Count": resources.gpus, "Capabilities": [["gpu"]]}]
    if volume is not None:
        mount: Json = {"Type": "volume", "Source": volume, "Target": SUPERVISOR_FOLDER, "ReadOnly": True}
        walls["Mounts"] = [mount | {"VolumeOptions": {"NoCopy": True}}]
    if has_quota and plan.has_writable_root:
        walls["StorageOpt"] = {"size": str(resources.disk_bytes)}
    return walls


def _memory_options(plan: Layout, size: int) -> str:
    """Mount options of a folder in memory; sets its owner, since Docker may take over the mode of the image's
    folder.
    """
    if plan.is_podmans:
        return f"{MEMORY_OPTIONS},size={size},notmpcopyup"
    owner = f",uid={plan.owner[0]},gid={plan.owner[1]}" if plan.owner else ""
    return f"{MEMORY_OPTIONS},size={size}{owner}"


def check_engine(info: Json, engine: Engine) -> None:
    """Check that an engine can enforce the limits that every sandbox has.

    Raises:
        ConfigError: the engine cannot limit memory, processes or CPU, or runs no Linux containers.
    """
    needed = {"MemoryLimit": "memory", "PidsLimit": "processes", "CpuCfsQuota": "CPU"}
    missing = [what for key, what in needed.items() if info.get(key, info.get(key.replace("Cfs", "CFS"))) is False]
    if missing:
        raise ConfigError(
            f"{engine.name} at {engine.address.url} cannot limit {' or '.join(missing)} here (rootless, or without "
            "its cgroups); use one that can, or the sandbox 'process'"
        )
    if info.get("OSType", "linux") != "linux":
        raise ConfigError(f"{engine.name} runs {info['OSType']} containers; only linux ones are served")


def check_resources(spec: SandboxSpec, info: Json, engine: Engine) -> None:
    """Check that an engine's machine has the CPUs and memory a spec asks for, since not every engine checks it.

    Raises:
        ConfigError: the machine has too little, or the spec asks for files of the hub's machine to be shown.
    """
    if spec.shown:
        raise ConfigError(f"a container shows nothing of this machine ({', '.join(spec.shown)}); put it into the image")
    cpus = info.get("NCPU")
    if cpus and spec.resources.cpus > cpus:
        raise ConfigError(f"a sandbox asks for {spec.resources.cpus:g} CPUs; the machine of {engine.name} has {cpus}")
    memory = info.get("MemTotal")
    if memory and spec.resources.memory_bytes > memory:
        asked, there = (f"{size / MIB:,.0f}" for size in (spec.resources.memory_bytes, memory))
        raise ConfigError(f"a sandbox asks for {asked} MiB of memory; the machine of {engine.name} has {there}")


def in_force(engine: Engine, spec: SandboxSpec, image: Image, plan: Layout, inspected: Json, runner: str) -> SandboxRef:
    """The isolation and limits that the engine reports for a container it created, for the record.

    Raises:
        ConfigError: the engine did not set up something that was asked for.
    """
    given: Json = inspected["HostConfig"]
    asked, limits = spec.resources, _limits(given)
    options: list[str] = given.get("SecurityOpt") or []
    differs = [
        name
        for name, ok in {
            "network": _has_network(spec, given["NetworkMode"]),
            "read-only root": bool(given["ReadonlyRootfs"]) is not plan.has_writable_root,
            "no privileges": not given.get("Privileged"),
            "no-new-privileges": any("no-new-privileges" in option for option in options),
            "dropped capabilities": bool(given.get("CapDrop")),
            "memory": limits["memory"] == asked.memory_bytes,
            "pids": limits["pids"] == asked.pids,
            "cpus": abs(limits["cpus"] - asked.cpus) < 0.01,
        }.items()
        if not ok
    ]
    if differs:
        raise ConfigError(f"{engine.name} did not put up what was asked of it: {', '.join(differs)}")
    runtime = given.get("Runtime") or ""
    return SandboxRef(
        provider="docker",
        walls="container",
        engine=engine.name if runtime in ("", "runc", "oci") else f"{engine.name}, {runtime}",
        image=image.name,
        image_digest=image.id,
        image_entrypoint=image.entrypoint,
        image_command=image.command,
        profile=spec.profile,
        network=spec.network,
        user=plan.user,
        runner=runner,
        resources=Resources(
            cpus=round(limits["cpus"], 3),
            memory_bytes=int(limits["memory"]),
            pids=int(limits["pids"]),
            disk_bytes=asked.disk_bytes,
            gpus=asked.gpus,
        ),
        limitations=_limitations(spec, plan, given),
    )


def _has_network(spec: SandboxSpec, mode: str) -> bool:
    if spec.beside is not None:
        return mode.startswith(_BESIDE)
    return mode in (spec.network, "default" if spec.network == "bridge" else "none")


def _limits(given: Json) -> dict[str, float]:
    period, quota = given.get("CpuPeriod") or 100_000, given.get("CpuQuota") or 0
    return {
        "memory": given.get("Memory") or 0,
        "pids": given.get("PidsLimit") or 0,
        "cpus": (given["NanoCpus"] / 1e9) if given.get("NanoCpus") else quota / period,
    }


def _limitations(spec: SandboxSpec, plan: Layout, given: Json) -> tuple[str, ...]:
    found = [SHARES_KERNEL] if given.get("Runtime") in (None, "", "runc", "crun", "oci") else []
    if plan.memory_folders:
        found.append(MEMORY_FOLDERS)
    if plan.first_user.partition(":")[0] in ("0", "root"):
        found.append(ROOT_IS_ROOT)
    if plan.has_writable_root and not given.get("StorageOpt"):
        found.append(NO_QUOTA)
    if given.get("MemorySwap") != given.get("Memory"):
        found.append(SWAP)
    if plan.is_podmans and plan.memory_folders:
        found.append(PODMANS_FOLDERS)
    if spec.network == "bridge":
        found.append(REACHES_NEIGHBOURS)
    return tuple(found)
