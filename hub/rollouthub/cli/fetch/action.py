"""What `hub fetch` does: fetches each split of named data sets, with a bar on a terminal and plain lines elsewhere."""

import json
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from urllib.parse import urlsplit

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from rollouthub.authoring.rows import PinnedFile, fetch_file
from rollouthub.authoring.rows.named_data import named_data
from rollouthub.cli.console import remarks
from rollouthub.errors import ConfigError


def fetch_data(names: Sequence[str], mirror: str | None, *, as_json: bool) -> None:
    """Fetch what is missing, and say what is there.

    Raises:
        UsageError: a name stands for no data set, or a file cannot be fetched; the files before it are kept.
    """
    base = None if mirror is None else _checked(mirror)
    wanted = [named_data(name) for name in dict.fromkeys(names)]
    files: list[dict[str, str | int | bool | None]] = []
    for data in wanted:
        for split, file in data.splits.items():
            was_here = file.is_here
            label = f"{data.name} {split}"
            if not was_here:
                url = file.url if base is None else base + urlsplit(file.url).path
                with _shown(label, url, file, is_quiet=as_json) as seen:
                    fetch_file(file, url=url, seen=seen)
            files.append({"name": data.name, "split": split, **file.model_dump(mode="json")})
            files[-1] |= {"path": str(file.path), "fetched": not was_here}
            if not as_json:
                done = "was here" if was_here else "fetched"
                remarks().print(f"{label}: {done}, {_counted(file)} in {file.path}")
    if as_json:
        sys.stdout.write(json.dumps({"files": files}) + "\n")
    else:
        remarks().print(f"Play it: hub run {wanted[0].name}")


def _checked(mirror: str) -> str:
    parts = urlsplit(mirror)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        raise ConfigError("--mirror is no http or https address without a login, such as https://mirror.example/raw")
    return mirror.rstrip("/")


@contextmanager
def _shown(label: str, url: str, file: PinnedFile, *, is_quiet: bool) -> Generator[Callable[[int, int | None], None]]:
    """Show the progress of one download."""
    console = remarks()
    if is_quiet or not console.is_terminal:
        if not is_quiet:
            console.print(f"{label}: fetching {_counted(file)} from {url}")
        yield lambda _have, _of: None
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(24), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(label, total=file.bytes)
        yield lambda have, of: bar.update(task, completed=have, total=of)


def _counted(file: PinnedFile) -> str:
    size = "a file" if file.bytes is None else f"{file.bytes:,} bytes"
    return size if file.rows is None else f"{size} ({file.rows:,} rows)"
