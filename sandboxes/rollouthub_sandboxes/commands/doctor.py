"""The sandbox part of `hub doctor`: is there an engine, is there bubblewrap, can the image mapping table be read."""

import shutil
from collections.abc import Iterator

from rollouthub.analysis.checkup.check_result import Finding
from rollouthub.errors import ConfigError
from rollouthub.event_loop import run_async
from rollouthub_sandboxes.engine.address import addresses
from rollouthub_sandboxes.engine.engine import ping
from rollouthub_sandboxes.images.image_map import load_from_map
from rollouthub_sandboxes.process.process_isolation import BareLimits, Namespaces, missing_tools


def findings() -> Iterator[Finding]:
    """What `hub doctor` finds about sandboxes on this machine; starts no sandbox."""
    yield run_async(_engine)
    purpose = "walls for programs where no engine answers"
    if shutil.which("bwrap") is None:
        yield Finding("bubblewrap", "missing", purpose, "apt-get install bubblewrap")
    else:
        yield Finding("bubblewrap", "ok", purpose)
    yield _process_walls()
    try:
        count = len(load_from_map().rules)
    except ConfigError as error:
        yield Finding("image table", "broken", str(error), "mend the file, or name another in ROLLOUTHUB_IMAGES")
    else:
        yield Finding("image table", "ok", f"{count} images stand in for others")


def _process_walls() -> Finding:
    """The limitations of process sandboxes on this machine, given the isolation programs that are installed."""
    name = "process sandboxes"
    for walls in (Namespaces, BareLimits):
        if not missing_tools(walls.kind):
            return Finding(name, "ok", f"{walls.kind}; they do not hold everything: {'; '.join(walls().limitations)}")
    return Finding(name, "missing", "programs without containers", f"install {' and '.join(missing_tools('limits'))}")


async def _engine() -> Finding:
    tried: list[str] = []
    try:
        for address in addresses():
            problem = await ping(address)
            if problem is None:
                return Finding("container engine", "ok", f"answers at {address.url}")
            tried.append(f"{address.url} ({problem})")
    except ConfigError as error:
        return Finding("container engine", "broken", str(error))
    says = f"containers for `terminal`, `swe` and `code`; tried {', '.join(tried) or 'no socket'}"
    return Finding("container engine", "missing", says, "start docker or podman, or name its socket in DOCKER_HOST")
