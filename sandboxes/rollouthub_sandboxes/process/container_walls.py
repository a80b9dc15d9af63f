"""Long-lived programs in a container, where bubblewrap does not work and an engine answers.

The container's image is only what the system's programs are laid over, read-only, as bubblewrap lays them.
"""

import csv
import io
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import rollouthub.processes
from rollouthub.processes import guarded
from rollouthub_sandboxes.engine.address import addresses
from rollouthub_sandboxes.engine.labels import labels, this_process
from rollouthub_sandboxes.process.visible_paths import this_machine

GRACE_SECONDS = 5.0
"""How long after SIGTERM the engine's program is killed: until then it passes the signal on to the container."""
IMAGE = "ROLLOUTHUB_FOREIGN_IMAGE"
DEFAULT_IMAGE = "debian:bookworm-slim"
_TRIAL_SECONDS = 30.0
_LONGEST_SECONDS = 30 * 86400.0


@dataclass(frozen=True)
class ContainerEngine:
    """An engine's command line program with the address that it asks."""

    command: tuple[str, ...]
    image: str

    def command_line(
        self,
        command: Sequence[str],
        folder: Path,
        workdir: Path,
        shown: Sequence[Path],
        *,
        uid: int | None,
        network: bool,
        variables: Sequence[str],
        processes: int,
    ) -> tuple[str, ...]:
        """The command that runs a program in a container, which ends at SIGTERM.

        The program has the system and `shown` read-only, `folder` to write in, no capabilities, and of the caller's
        environment the named variables.
        """
        machine, guard = this_machine(), Path(rollouthub.processes.__file__)
        options = ["run", "--rm", "--pull", "never", "--hostname", "foreign"]
        for name, value in labels(this_process(), "foreign", time.time() + _LONGEST_SECONDS, "foreign").items():
            options += ["--label", f"{name}={value}"]
        options += ["--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
        options += ["--pids-limit", str(processes), "--network", "bridge" if network else "none"]
        options += ["--user", f"{os.geteuid() if uid is None else uid}:{os.getegid() if uid is None else uid}"]
        if uid is None and self.command[0].endswith("podman"):
            options += ["--userns", "keep-id"]
        options += ["--tmpfs", "/tmp:rw,mode=1777,size=1g"]
        options += _open_parents(folder, (folder, guard, *machine.folders, *machine.hidden, *shown))
        for path in (*machine.folders, *machine.files, guard, *shown):
            options += _mount(path, path, "readonly")
        for path in machine.hidden:
            if not any(each.is_relative_to(path) or path.is_relative_to(each) for each in (*shown, guard)):
                options += ["--tmpfs", f"{path}:ro,size=4k"]
        options += [*_mount(folder, folder), "--workdir", str(workdir)]
        for name in variables:
            options += ["--env", name]
        interpreter = str(Path(sys.executable).resolve())
        return (*self.command, *options, "--entrypoint", interpreter, self.image, *guarded(command)[1:])


def _mount(source: Path, target: Path, *more: str) -> list[str]:
    """The option that mounts a path. It is a line of CSV: a comma in a name would end the name, and begin an option."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(["type=bind", f"source={source}", f"target={target}", *more])
    return ["--mount", line.getvalue()]


def _open_parents(folder: Path, mounted: Sequence[Path]) -> list[str]:
    """Mounts of empty folders that lead to what is mounted: an image's own `/root` is closed to the program's user."""
    options: list[str] = []
    for top in sorted({path.parts[1] for path in mounted if len(path.parts) > 2} - {"usr", "etc", "tmp"}):
        empty = folder / ".above" / top
        empty.mkdir(parents=True, mode=0o755)
        for path in mounted:
            if path.parts[1] == top and len(path.parts) > 2:
                place = empty.joinpath(*path.parts[2:])
                place.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
                if path.is_dir():
                    place.mkdir(exist_ok=True, mode=0o755)
                else:
                    place.touch()
        options += _mount(empty, Path("/", top))
    return options


@cache
def container_engine() -> "ContainerEngine | str":
    """The engine that runs containers of the image, or why there is none."""
    image = os.environ.get(IMAGE) or DEFAULT_IMAGE
    problems: list[str] = []
    for address in addresses():
        name = "podman" if "podman" in address.url else "docker"
        program = shutil.which(name)
        if program is None:
            problems.append(f"{name} is not installed")
            continue
        command = (program, "--url" if name == "podman" else "--host", address.url)
        try:
            found = subprocess.run(
                (*command, "image", "inspect", "--format", "{{.Id}}", image),
                capture_output=True,
                timeout=_TRIAL_SECONDS,
                check=False,
                stdin=subprocess.DEVNULL,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            problems.append(f"{name}: {error}")
            continue
        if found.returncode == 0:
            return ContainerEngine(command, image)
        problems.append(f"{name}: {found.stderr.decode(errors='replace').strip()[:200]}; {name} pull {image}")
    return "; ".join(problems) or "no container engine answers"
