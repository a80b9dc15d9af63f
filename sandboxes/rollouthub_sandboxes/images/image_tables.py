"""Lists of images, as tables and as JSON."""

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table
from rich.text import Text

from rollouthub_sandboxes.images.inventory import OwnImage

_SPANS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))


def facts(image: OwnImage) -> dict[str, Any]:
    """An image as a JSON object."""
    return asdict(image)


def images_table(found: Sequence[OwnImage], now: float | None = None) -> Table:
    """A table of images, one per row."""
    moment = time.time() if now is None else now
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("image", no_wrap=True)
    table.add_column("size", justify="right")
    table.add_column("built", justify="right")
    table.add_column("used", justify="right")
    table.add_column("containers", justify="right")
    table.add_column("from", overflow="fold")
    for image in found:
        source = Text(image.source)
        for asked, used in image.replaced.items():
            source.append(f"\n{used} for {asked}", style="dim")
        name = Text(image.name)
        for given in image.given_names:
            name.append(f"\n{given}", style="dim")
        table.add_row(
            name,
            size(image.bytes),
            span(moment - image.built_at),
            span(moment - image.used_at),
            str(image.containers),
            source,
        )
    return table


def size(count: int) -> str:
    """A number of bytes in a readable unit."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"


def span(seconds: float) -> str:
    """A duration in its largest unit; a negative one has passed."""
    unit, each = next(((unit, each) for unit, each in _SPANS if abs(seconds) >= each), _SPANS[-1])
    return f"{seconds / each:.0f} {unit}"
