"""Draws the README's pictures from real runs: python docs/images/make.py [NAME…]

Each command runs in a terminal of 100 columns; what it prints becomes an SVG that refers to nothing outside itself.
The report and the registry are photographed in a browser, where there is a `chromium`.
"""

import json
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
from fcntl import ioctl
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text
from watch import draw_watch, tidy

COLUMNS = 100
FONTS = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"
HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parents[1] / "examples"
HUB = Path(sys.executable).parent / "hub"

MODEL = "'mock/solver?accuracy=0.3&latency=0.05..0.4'"
RUN = f"hub run arithmetic -m {MODEL} \\\n    --limit 50 --repeats 8 --seed 7 -o runs/sums"
"""Fifty sums, eight tries each, by a mock that is right three times in ten; no model, and the same every time."""
REPORTED = (
    "hub run arithmetic -m 'mock/solver?accuracy=0.4&latency=0.05..0.4&fail=0.04' --retries 0 "
    "--limit 50 --repeats 8 --seed 7 -q -o runs/sums"
)
"""As above, by a mock whose backend fails for good now and then: those rollouts have no score."""

SUMS = "hub run arithmetic --limit 40 --repeats 8 --seed 7 -q"
VIEWED = (
    f"{SUMS} -m 'mock/solver?accuracy=0.6&fail=0.02&latency=0.02..0.2' --retries 0 -o runs/before",
    f"{SUMS} -m 'mock/solver?accuracy=0.8&latency=0.02..0.2' -o runs/after",
    "hub view runs/before runs/after --bundle pages",
)
"""What is photographed of `hub view`: two runs of sums, their pages, and the two compared."""

REGISTRY = "http://127.0.0.1:8800"
PUBLISH = 'hub publish {} --registry "file://$PWD/my-registry" --limit 1'
BASELINE = "hub run arithmetic -m 'mock/solver?accuracy={0}' --limit 20 --repeats 4 --seed 7 -q -o runs/sums-{0}"
PUBLISHED = (
    BASELINE.format("0.9"),
    BASELINE.format("0.3"),
    PUBLISH.format("arithmetic") + " --baseline runs/sums-0.9 --baseline runs/sums-0.3",
    PUBLISH.format(EXAMPLES / "mcp_server"),
    "hub new lab/shelves --server",
    PUBLISH.format("shelves"),
    "sed -i 's/^version = .*/version = \"0.2.0\"/' shelves/env.toml",
    PUBLISH.format("shelves"),
    "hub yank lab/shelves@0.1.0 --reason 'published too early; take 0.2.0' --registry \"file://$PWD/my-registry\"",
)
"""What fills the registry that is photographed: all that its pages say was really done, by mocks that say they are."""
DOWNLOADED = ("rollouthub/arithmetic", "lab/shelves", "examples/shopping")
"""What is then installed from it, once each."""


def print_in_terminal(command: str, folder: Path) -> str:
    """What a command prints to a terminal, colours included; its progress is left out."""
    reader, writer = pty.openpty()
    ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", 60, COLUMNS, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    environment.pop("NO_COLOR", None)
    line = command.replace("hub ", f"{HUB} ", 1)
    with subprocess.Popen(
        ["sh", "-c", line], cwd=folder, env=environment, stdout=writer, stderr=subprocess.DEVNULL
    ) as process:
        os.close(writer)
        chunks: list[bytes] = []
        try:
            while chunk := os.read(reader, 65536):
                chunks.append(chunk)
        except OSError:  # Linux's end of file on a terminal whose other side is closed
            pass
    os.close(reader)
    assert process.returncode == 0, f"{command}: exit code {process.returncode}"
    return b"".join(chunks).decode().replace("\r\n", "\n")


def draw(name: str, command: str, printed: str) -> None:
    """Write `name`.svg: the command after a prompt, then what it printed."""
    with Path(os.devnull).open("w") as nowhere:
        console = Console(record=True, width=COLUMNS, file=nowhere, force_terminal=True, color_system="truecolor")
        console.print(Text.assemble(("$ ", "bold green"), command), soft_wrap=False, highlight=False)
        console.print(Text.from_ansi(printed.rstrip("\n")))
        svg = console.export_svg(title="", theme=MONOKAI, unique_id=f"hub-{name}")
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    svg = svg.replace("Fira Code, monospace", FONTS)
    svg = re.sub(r"<!-- .*? -->", "", svg)
    # Some viewers would trim the blanks that a line begins with.
    svg = svg.replace("<text ", '<text xml:space="preserve" ')
    svg = re.sub(r"[ \t]+$", "", svg, flags=re.MULTILINE)
    assert "url(" not in svg.replace("url(#", ""), "the picture refers to something outside itself"
    (HERE / f"{name}.svg").write_text(svg)


def photograph(name: str, url: str, width: int, height: int, scale: float = 1) -> None:
    """Write `name`.png: how a page looks in a browser, from its top."""
    browser = shutil.which("chromium")
    assert browser is not None, "there is no chromium to photograph pages with"
    options = ["--headless", "--no-sandbox", "--hide-scrollbars", f"--window-size={width},{height}"]
    options.append(f"--force-device-scale-factor={scale}")
    subprocess.run(
        [browser, *options, f"--screenshot={HERE / f'{name}.png'}", url],
        check=True,
        stderr=subprocess.DEVNULL,
    )


def make_report() -> None:
    """Play a run of which some rollouts break, and photograph its report."""
    with tempfile.TemporaryDirectory() as folder:
        for command in (REPORTED, "hub report runs/sums -o report.html"):
            subprocess.run(
                ["sh", "-c", command.replace("hub ", f"{HUB} ", 1)], cwd=folder, check=False, capture_output=True
            )
        photograph("report", Path(folder, "report.html").resolve().as_uri(), 1040, 1960)


def make_terminals() -> None:
    """Draw what commands print."""
    with tempfile.TemporaryDirectory() as folder:
        draw("run", RUN, print_in_terminal(RUN, Path(folder)))
        failed = subprocess.run(
            [HUB, "show", "last", "--failed", "--limit", "1"], cwd=folder, capture_output=True, text=True, check=True
        )
        rollout = failed.stdout.splitlines()[1].split()[0]
        show = f"hub show last {rollout}"
        draw("show", show, print_in_terminal(show, Path(folder)))


def make_registry() -> None:
    """Publish a few environments, serve them, install some, and photograph the registry's pages."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        # A home of its own: nothing of who makes the picture is in it, neither keys nor what is installed.
        homes = {f"XDG_{kind}_HOME": str(folder / kind.lower()) for kind in ("CONFIG", "DATA", "STATE")}
        environment = {**os.environ, **homes, "PATH": f"{HUB.parent}{os.pathsep}{os.environ['PATH']}"}
        for command in PUBLISHED:
            subprocess.run(["sh", "-c", command], cwd=folder, env=environment, check=True)
        serve = [HUB, "serve", "registry", "my-registry", "--port", REGISTRY.rpartition(":")[2], "--json"]
        with subprocess.Popen(serve, cwd=folder, env=environment, stdout=subprocess.PIPE) as server:
            try:
                assert server.stdout is not None and server.stdout.readline(), "the registry is not served"
                for wanted in DOWNLOADED:
                    install = [HUB, "install", wanted, "--registry", REGISTRY]
                    subprocess.run(install, cwd=folder, env=environment, check=True)
                photograph("registry", f"{REGISTRY}/", 1000, 570, 1.5)
                photograph("registry-package", f"{REGISTRY}/packages/rollouthub/arithmetic", 1000, 1090, 1.5)
            finally:
                server.terminate()


def make_view() -> None:
    """Play two runs, write the pages of `hub view` as files, and photograph three of them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        for command in VIEWED:
            subprocess.run(
                ["sh", "-c", command.replace("hub ", f"{HUB} ", 1)], cwd=folder, check=False, capture_output=True
            )
        pages = folder / "pages"
        failed = subprocess.run(
            [HUB, "show", "runs/before", "--where", "passed == false", "--limit", "1", "--json"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
        )
        rollout = json.loads(failed.stdout)[0]["rollout_id"]
        photograph("view-run", (pages / "run" / "before" / "index.html").as_uri(), 1280, 1000)
        photograph("view-rollout", (pages / "run" / "before" / "rollout" / f"{rollout}.html").as_uri(), 1280, 1000)
        photograph("view-compare", (pages / "compare.html").as_uri(), 1280, 900)


def make_watch() -> None:
    """Play runs, and draw the screens of `hub watch`."""
    draw_watch(lambda name, svg: (HERE / f"{name}.svg").write_text(tidy(svg, FONTS)))


MAKERS = {
    "terminals": make_terminals,
    "report": make_report,
    "registry": make_registry,
    "view": make_view,
    "tui": make_watch,
}

if __name__ == "__main__":
    for wanted in sys.argv[1:] or MAKERS:
        MAKERS[wanted]()
