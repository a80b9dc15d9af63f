"""What others wrote, in a form that drives no terminal."""

LONGEST = 400


def shown(text: str, longest: int = LONGEST) -> str:
    """A text in one line of printable characters."""
    line = "".join(character if character.isprintable() else " " for character in text[: longest + 1])
    return line if len(line) <= longest else line[: longest - 1] + "…"
