"""Our themes can be read."""

import pytest
from rich.terminal_theme import TerminalTheme
from textual.color import Color
from textual.theme import Theme

from rollouthub_tui.app.themes import ANSI_DARK, ANSI_LIGHT, DARK, LIGHT, other

READABLE = 4.5
"""The contrast that WCAG 2.2 asks of text (1.4.3)."""


@pytest.mark.parametrize(("theme", "ansi"), [(DARK, ANSI_DARK), (LIGHT, ANSI_LIGHT)], ids=["dark", "light"])
def test_every_colour_can_be_read_on_every_ground(theme: Theme, ansi: TerminalTheme) -> None:
    grounds = [Color.parse(ground) for ground in (theme.background, theme.surface) if ground]
    written = [Color(*ansi.ansi_colors[number]) for number in range(16) if (theme.dark, number) != (True, 0)]
    named = (theme.foreground, theme.primary, theme.secondary, theme.success, theme.warning, theme.error, theme.accent)
    written += [Color.parse(name) for name in named if name]
    poor = [(color.hex, ground.hex) for color in written for ground in grounds if contrast(color, ground) < READABLE]
    assert poor == []


def contrast(one: Color, other: Color) -> float:
    """As WCAG has it."""
    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def luminance(color: Color) -> float:
    """Relative, as WCAG has it."""
    linear = [
        value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4
        for value in (channel / 255 for channel in (color.r, color.g, color.b))
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_dark_and_light_go_in_pairs() -> None:
    assert other("rollouthub-dark", is_dark=True) == "rollouthub-light"
    assert other("nord", is_dark=True) == "rollouthub-light"
    assert other("textual-light", is_dark=False) == "textual-dark"
