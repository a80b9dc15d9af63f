"""The tables of docs/settings.md, from the models of the settings: `python -m tests.settings_page` writes them anew."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from rollouthub.engine.run_request import RunRequest
from rollouthub.settings import Setting, duration, settings_of
from rollouthub.trainers.learn import LearnSettings
from rollouthub.trainers.stream import SupplyRules

PAGE = Path(__file__).parents[1] / "docs" / "settings.md"
_TABLES = re.compile(r"(?<=<!-- settings -->\n).*?(?=<!-- /settings -->)", re.DOTALL)
_TYPES = {bool: "boolean", int: "integer", float: "number", str: "text", tuple: "array", dict: "table"}


def settings_tables(request: type[BaseModel] = RunRequest) -> str:
    """A table for each panel of `hub run --help`, and one of what a stream takes besides."""
    panels: dict[str, list[Setting]] = {}
    for setting in settings_of(request):
        panels.setdefault(setting.option.panel or "What is played, by whom", []).append(setting)
    parts = [_part(panel, settings) for panel, settings in panels.items()]
    stream = (
        "## Streams\n\nWhat `rollouthub.stream_rollouts` takes besides ([asynchronous training](async-training.md)); "
        "its `shuffle` takes the place of the run's.\n\n"
        "| setting | type | default | meaning |\n| --- | --- | --- | --- |"
    )
    rows = (_row((f"`{one.key}`", _type(one), _default(one), one.help)) for one in settings_of(SupplyRules))
    learner = (
        "## The learner\n\nThe fields of `rollouthub.trainers.learn.LearnSettings` ([learner](trainers/learner.md))."
        "\n\n"
        "| setting | type | default | meaning |\n| --- | --- | --- | --- |"
    )
    learnt = (_row((f"`{one.key}`", _type(one), _default(one), one.help)) for one in settings_of(LearnSettings))
    return "\n\n".join([*parts, "\n".join([stream, *rows]), "\n".join([learner, *learnt])]) + "\n"


def written_tables() -> str:
    """What docs/settings.md has."""
    found = _TABLES.search(PAGE.read_text())
    assert found is not None, "docs/settings.md has no place for tables"
    return found[0]


def _part(panel: str, settings: Iterable[Setting]) -> str:
    head = f"## {panel}\n\n| setting | option | type | default | meaning |\n| --- | --- | --- | --- | --- |"
    rows = (_row((f"`{one.key}`", _option(one), _type(one), _default(one), one.help)) for one in settings)
    return "\n".join([head, *rows])


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _option(setting: Setting) -> str:
    option = setting.option
    flags = [option.short, setting.flag, option.off] if option.is_offered else []
    return " ".join(f"`{flag}`" for flag in flags if flag) or "–"


def _type(setting: Setting) -> str:
    if setting.choices:
        return " or ".join(f"`{choice}`" for choice in setting.choices)
    kinds = [next((word for kind, word in _TYPES.items() if setting.is_a(kind)), "")]
    if not kinds[0]:  # one of several types
        kinds = [_of(kind) for kind in setting.types]
    bounds = (("≥", setting.least), (">", setting.above), ("≤", setting.most))
    said = (f"{sign} {bound:g}" for sign, bound in bounds if bound is not None)
    return f"{' or '.join(kinds)} {', '.join(said)}".rstrip()


def _of(kind: Any) -> str:
    return _TYPES.get(kind) or " or ".join(f"`{choice}`" for choice in kind.__args__)


def _default(setting: Setting) -> str:
    if setting.option.show is duration and setting.default:
        return f"{setting.default:g}"
    if isinstance(setting.default, bool):
        return str(setting.default).lower()
    return f"`{setting.default_text}`" if setting.default_text else "–"


if __name__ == "__main__":
    PAGE.write_text(_TABLES.sub(lambda _: settings_tables(), PAGE.read_text()))
