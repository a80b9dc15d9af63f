"""The foreign program that plays MiniWoB++: a driver and the machine's own Chromium."""

import shutil
from pathlib import Path
from typing import Any

from rollouthub.errors import ConfigError
from rollouthub_servers.foreign.program import ForeignProgram

PAGES = 32
"""Most episodes that one browser plays at a time; further ones wait."""
_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome-stable")
"""Programs by preference: the first is many times lighter."""
_DEBIAN = Path("/usr/lib/chromium")
"""Where the programs are that Debian's scripts of the same names start."""
_FONTS = ("/etc/fonts", "/var/cache/fontconfig", "/usr/local/share/fonts")
_OWN = "rollouthub_servers.miniwob"
_SCRIPT = Path(__file__).with_name("page.js")


def find_chromium() -> Path:
    """The browser's program.

    Raises:
        ConfigError: there is none.
    """
    for name in _NAMES:
        if (found := shutil.which(name)) is not None:
            return _DEBIAN / name if (_DEBIAN / name).is_file() else Path(found).resolve()
    raise ConfigError(
        "MiniWoB++ is played in Chromium, and there is none here: apt-get install chromium-headless-shell "
        "(or chromium, which is heavier)"
    )


def miniwob_program(
    library: Path, python: Path, *, render: str, action_seconds: float, step_seconds: float
) -> ForeignProgram:
    """The driver with one browser; each session is a page in it, and each page a process of the browser's.

    `library` is the folder of the library's modules and pages. Chromium's own sandbox is off in there: what holds is
    what holds every foreign process. It reserves far more addresses than it uses, so that the driver bounds its data.
    """
    chromium = find_chromium()
    settings: dict[str, Any] = {
        "library": str(library),
        "chromium": str(chromium),
        "script": _SCRIPT.read_text(encoding="utf-8"),
        "render": render,
        "action_seconds": action_seconds,
        "seconds": 0.7 * step_seconds,  # less than the hub waits: who was at fault is found out in there
        "alive_seconds": 0.2 * step_seconds,
        "pages": PAGES,
    }
    parts = ("devtools", "element_list", "page_actions", "page_server", "web_page")
    return ForeignProgram(
        name="MiniWoB++ in Chromium",
        python=python,
        module=f"{_OWN}.miniwob_driver",
        modules=(
            "rollouthub_servers.foreign.forked_serving",
            "rollouthub_servers.step_api.world",
            *(f"{_OWN}.{part}" for part in parts),
        ),
        arguments=settings,
        shown=(library, chromium.parent, *(Path(name) for name in _FONTS if Path(name).is_dir())),
        variables={"TZ": "UTC", "LANG": "C.UTF-8"},
        memory_bytes=1 << 46,
    )
