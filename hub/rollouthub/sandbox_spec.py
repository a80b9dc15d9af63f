"""The specification of a sandbox (image, isolation, resources), and the description of the one that was opened."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from rollouthub.values import Frozen

MIB, GIB = 1 << 20, 1 << 30
Network = Literal["none", "bridge"]
Profile = Literal["hardened", "root-compat"]
"""`hardened`: no capabilities, not root, read-only root. `root-compat`: root with CHOWN, DAC_OVERRIDE, FOWNER, SETUID,
SETGID and KILL, and a writable root, for tasks that install and administer."""


class Resources(Frozen):
    """The resources a sandbox may use."""

    cpus: float = Field(default=1.0, gt=0)
    """Number of CPU cores; 0.5 is half the time of one."""
    memory_bytes: int = Field(default=1 * GIB, ge=16 * MIB)
    """Bytes of memory of all its processes together; no swap is added."""
    pids: int = Field(default=256, ge=8)
    """Most processes and threads at one time."""
    disk_bytes: int = Field(default=1 * GIB, ge=MIB)
    """Most bytes in each writable folder; on a writable root, of all that is written."""
    gpus: int = Field(default=0, ge=0)
    """Number of GPUs of the machine that it sees; other sandboxes may see the same ones."""


class Build(Frozen):
    """An image to build from a folder."""

    context: Path
    dockerfile: str = "Dockerfile"
    """Path relative to the context."""
    arguments: dict[str, str] = {}
    network: Network = "bridge"
    """Network of its instructions during the build; the sandbox's own network is set in its spec."""
    timeout_seconds: float = Field(default=1800.0, gt=0)

    def __str__(self) -> str:
        return str(self.context / self.dockerfile)


class SandboxSpec(Frozen):
    """The sandbox an environment asks for. Sandboxes of equal specs come from one pool."""

    image: str | Build | None = None
    """The image; None for the provider's own base: a small Debian with `sh` and Python 3."""
    profile: Profile = "hardened"
    network: Network = "none"
    resources: Resources = Resources()
    user: str | None = None
    """The user of commands: `name`, `uid` or `uid:gid`. None: nobody under `hardened`, else the image's own user."""
    workdir: str | None = None
    """Working directory of commands. None: the image's own, or `/workspace` if it has none; writable under
    `hardened`.
    """
    environment: dict[str, str] = {}
    scratch: tuple[str, ...] = ("/tmp",)
    """Writable folders besides `workdir` on a read-only root; empty at the start."""
    has_writable_root: bool = False
    """Whether the root is writable under `hardened`, too; `root-compat` always has a writable one."""
    shown: tuple[str, ...] = ()
    """Files and folders of this machine that process sandboxes see read-only at their own path; a container has only
    its image's files.
    """
    loopback_names: tuple[str, ...] = ()
    """Further host names of its own loopback address, such as those of sandboxes that are opened `beside` it."""
    beside: str | None = None
    """Id of an open sandbox whose network this one is in: both have the same addresses, ports and host names, and
    nothing else in common. None: a network of its own.
    """
    ttl_seconds: float = Field(default=6 * 3600.0, gt=0)
    """Seconds after which the sandbox ends by itself, even if the hub is gone."""


class SandboxRef(Frozen):
    """The sandbox as it was opened, for the record."""

    provider: str
    walls: str
    """What separates it from the machine: `container`, `namespaces` or `limits` (resource limits only)."""
    engine: str | None = None
    """Name and version of the container engine, such as `docker 20.10.24`."""
    image: str | None = None
    image_digest: str | None = None
    image_entrypoint: tuple[str, ...] = ()
    """The program that the image itself starts, which a sandbox does not."""
    image_command: tuple[str, ...] = ()
    """Arguments of that program, or a program of its own where there is no entry point."""
    profile: Profile
    network: str
    """`none`, `bridge`, or `host` if the network is not isolated."""
    user: str
    runner: str = "supervisor"
    """What runs commands in it: `supervisor`, or `engine-exec` if the supervisor cannot run."""
    resources: Resources
    limitations: tuple[str, ...] = ()
    """What the isolation does not prevent, in sentences."""


_Word = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$")]
"""A name that does not begin with a hyphen, so that no command line reads it as an option."""


class Container(Frozen):
    """A container, as its engine's command line names it. May come from another machine, so each field's form is
    checked.
    """

    engine: Literal["docker", "podman"]
    name: _Word
    address: Annotated[str, Field(pattern=r"^(unix:///|tcp://)[A-Za-z0-9_./:\[\]-]{1,250}$")] | None = None
    """Address of the engine; None if its command line finds it by itself."""
    user: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,127}$")] | None = None
    """User of the shell; None for the container's own."""

    @property
    def shell(self) -> tuple[str, ...]:
        """The command that opens a shell in the container, to be run on the engine's machine."""
        words: list[str] = [self.engine]
        if self.address is not None:
            words += ["--remote", "--url", self.address] if self.engine == "podman" else ["--host", self.address]
        user = () if self.user is None else ("--user", self.user)
        return (*words, "exec", "-it", *user, self.name, "sh")
