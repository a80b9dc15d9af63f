"""The committed baseline: what it excuses, and the reason that stands above each entry."""

from pathlib import Path

FILE = Path(__file__).with_name("baseline.yml")


def entries() -> dict[str, str]:
    """Each entry with the comment right above it; empty where there is none."""
    found: dict[str, str] = {}
    comment = ""
    for line in FILE.read_text().splitlines():
        text = line.strip()
        if text.startswith("- "):
            assert text[2:] not in found, f"{text[2:]} stands there twice"
            found[text[2:]] = comment
            comment = ""
        elif text.startswith("#"):
            comment = f"{comment} {text[1:].strip()}".strip()
        else:
            comment = ""
    return found
