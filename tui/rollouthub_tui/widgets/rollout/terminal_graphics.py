"""Finds out whether the terminal draws pixels, before the screens begin: later, its answers would mix with keys."""

import logging
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from PIL.Image import Image
    from textual.widget import Widget

logger = logging.getLogger(__name__)

_PROGRAMS = ("kitty", "ghostty", "wezterm", "iterm.app", "foot", "konsole", "mlterm", "contour", "black box")
_WIDGETS = "textual_image.widget"


def prepare_graphics(environ: Mapping[str, str]) -> None:
    """Ask the terminal which graphics it can draw, if it may be one that does. Must be called before the app runs;
    if it is not, pictures are drawn with half-block characters.
    """
    names = " ".join(environ.get(name, "") for name in ("TERM", "TERM_PROGRAM", "LC_TERMINAL")).lower()
    is_likely = any(program in names for program in _PROGRAMS) or any(
        environ.get(name) for name in ("KITTY_WINDOW_ID", "KONSOLE_VERSION", "WEZTERM_PANE", "WT_SESSION")
    )
    if is_likely and "TMUX" not in environ and sys.__stdout__ is not None and sys.__stdout__.isatty():
        try:
            import_module(_WIDGETS)  # asks as it is imported
        except Exception as error:  # whatever a terminal answers, pictures can do without
            logger.warning("the terminal did not say what it can draw (%s); pictures are drawn in cells", error)


def pixel_widget(picture: "Image") -> "Widget | None":
    """A widget that draws the picture in pixels; None if the terminal cannot, or was not asked."""
    widgets: Any = sys.modules.get(_WIDGETS)
    if widgets is None or widgets.AutoRenderable not in (widgets.TGPRenderable, widgets.SixelRenderable):
        return None
    return widgets.Image(picture)
