"""The app's dark and light theme, and the colours that ANSI colour names stand for in each."""

from rich.terminal_theme import TerminalTheme
from textual.theme import Theme

DARK = Theme(
    name="rollouthub-dark",
    dark=True,
    primary="#6ea8fe",
    secondary="#8fa3bf",
    accent="#f2b866",
    warning="#e5b567",
    error="#f07178",
    success="#7fd88f",
    foreground="#d8dee9",
    background="#11151c",
    surface="#181d26",
    panel="#212835",
    variables={"footer-key-foreground": "#6ea8fe", "block-cursor-background": "#2f5d9e"},
)
LIGHT = Theme(
    name="rollouthub-light",
    dark=False,
    primary="#1f5fbf",
    secondary="#4a5f7d",
    accent="#9a5b00",
    warning="#8a5a00",
    error="#b3202c",
    success="#1d7433",
    foreground="#1c2430",
    background="#fbfbf8",
    surface="#f2f3ef",
    panel="#e6e8e3",
    variables={"footer-key-foreground": "#1f5fbf"},
)
ANSI_DARK = TerminalTheme(
    (17, 21, 28),
    (216, 222, 233),
    [
        (110, 120, 136),  # black, which would not be seen
        (240, 113, 120),
        (127, 216, 143),
        (229, 181, 103),
        (110, 168, 254),
        (199, 146, 234),
        (108, 208, 212),
        (216, 222, 233),
    ],
    [
        (139, 150, 168),
        (255, 139, 146),
        (158, 235, 172),
        (250, 206, 136),
        (147, 192, 255),
        (219, 176, 247),
        (147, 227, 230),
        (255, 255, 255),
    ],
)
ANSI_LIGHT = TerminalTheme(
    (251, 251, 248),
    (28, 36, 48),
    [
        (28, 36, 48),
        (179, 32, 44),
        (29, 116, 51),
        (138, 90, 0),
        (31, 95, 191),
        (126, 52, 158),
        (0, 108, 116),
        (90, 100, 115),  # white, which would not be seen
    ],
    [
        (94, 104, 119),
        (192, 38, 50),
        (31, 122, 55),
        (145, 96, 0),
        (38, 104, 205),
        (140, 60, 175),
        (0, 115, 124),
        (70, 80, 95),
    ],
)


def other(theme: str, *, is_dark: bool) -> str:
    """The theme to switch to for the other brightness; Textual's own themes come in pairs, too."""
    if theme.startswith("textual-"):
        return "textual-light" if is_dark else "textual-dark"
    return LIGHT.name if is_dark else DARK.name
