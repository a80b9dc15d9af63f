"""The record as a document of JSON: a section for its facts and one per turn, with token arrays shortened."""

import json
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from pydantic_core import to_json
from rich.text import Text

from rollouthub.rollout import Rollout, Turn
from rollouthub.statistics.amounts import count
from rollouthub.text import escaped
from rollouthub_tui.widgets.rollout.document import Piece, Section

_OPEN_TURNS = 20
_ARRAYS = ("output_token_ids", "output_logprobs", "output_mask", "policy_versions")


def raw_record(rollout: Rollout, prompt_lengths: Sequence[int | None]) -> list[Section]:
    """The record without prompt token ids, which are replaced by their number."""
    facts = rollout.model_copy(update={"turns": ()})
    sections = [
        Section(
            "record",
            lambda width, is_open: Text("record, without its turns", style="bold"),
            lambda: [Piece("json", lambda: _shown(_facts(facts)), syntax="json", indent=2)],
        )
    ]
    for turn, length in zip(rollout.turns, prompt_lengths, strict=True):
        sections.append(
            Section(
                ("turn", turn.index),
                partial(_title, turn.index),
                partial(_pieces, turn, length),
                is_open=len(rollout.turns) <= _OPEN_TURNS,
            )
        )
    return sections


def record_text(rollout: Rollout, prompt_lengths: Iterable[int | None]) -> str:
    """The record as one JSON object; arrays of tokens are replaced by their lengths."""
    turns = [_turn(turn, length) for turn, length in zip(rollout.turns, prompt_lengths, strict=True)]
    return _shown({**_facts(rollout.model_copy(update={"turns": ()})), "turns": turns})


def _title(index: int, width: int, is_open: bool) -> Text:
    return Text.assemble(("turns", "bold"), f"[{index}]")


def _pieces(turn: Turn, length: int | None) -> list[Piece]:
    return [Piece("json", lambda: _shown(_turn(turn, length)), syntax="json", indent=2)]


def _facts(rollout: Rollout) -> dict[str, Any]:
    return rollout.model_dump(mode="json", exclude={"turns"})


def _turn(turn: Turn, prompt_length: int | None) -> dict[str, Any]:
    lengths: dict[str, int | None] = {"prompt_token_ids": prompt_length}
    for name in _ARRAYS:
        values = getattr(turn, name)
        lengths[name] = None if values is None else len(values)
    told = turn.model_dump(mode="json", exclude=set(lengths))
    return {**told, **{name: None if size is None else _short(name, size) for name, size in lengths.items()}}


def _short(name: str, size: int) -> str:
    return f"[… {count(size, 'id' if name.endswith('ids') else 'value')}]"


def _shown(value: Any) -> str:
    """A value as JSON; characters that cannot be drawn are written as JSON escapes."""
    try:
        text = to_json(value, indent=2).decode()  # a tenth of what Python's own takes
    except ValueError:  # half a surrogate
        text = json.dumps(value, ensure_ascii=False, indent=2)
    return escaped(text)
