"""The tables of probes and classes in docs/audit.md, from the code: `python -m tests.audit_tables` writes them anew."""

import re
from collections.abc import Iterator
from pathlib import Path

from rollouthub_registry.audit.cheats import all_cheats
from rollouthub_registry.audit.probes import PROBES
from rollouthub_registry.check.defect_class import LEAKS, MISJUDGED

PAGE = Path(__file__).parents[1] / "docs" / "audit.md"


def tables() -> dict[str, str]:
    """Mark → the table that stands between it and its end."""
    return {"probes": "\n".join(_probes()), "classes": "\n".join(_classes())}


def written(mark: str) -> str:
    """What the page has between a mark and its end."""
    found = _between(mark).search(PAGE.read_text())
    assert found is not None, f"docs/audit.md has no <!-- {mark} -->"
    return found[0].strip("\n")


def _probes() -> Iterator[str]:
    yield from ("| probe | class | what holds where it finds nothing |", "| --- | --- | --- |")
    for probe in PROBES:
        yield f"| `{probe.name}` | {probe.defect} | {_cell(probe.title)} |"
    cheats = all_cheats()
    if cheats:
        yield from ("", "| cheat | class | what holds where it fails | described in |", "| --- | --- | --- | --- |")
    for cheat in cheats:
        yield f"| `{cheat.name}` | {cheat.defect} | {_cell(cheat.title)} | {_cell(cheat.source)} |"


def _classes() -> Iterator[str]:
    yield from ("| class | what it is |", "| --- | --- |")
    for name, title in {**LEAKS, **MISJUDGED}.items():
        yield f"| {name} | {_cell(title)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _between(mark: str) -> re.Pattern[str]:
    return re.compile(rf"(?<=<!-- {mark} -->\n).*?(?=<!-- /{mark} -->)", re.DOTALL)


if __name__ == "__main__":
    text = PAGE.read_text()
    for mark, table in tables().items():
        text = _between(mark).sub(f"{table}\n".replace("\\", r"\\"), text)
    PAGE.write_text(text)
