"""The contract of trainer adapters: whatever the entry points name, and one that a stranger wrote."""

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from rollouthub import Rollout, Score
from rollouthub.errors import HubError
from rollouthub.export import NotTrainable, Refusal, training_rows
from rollouthub.messages import Media, Message
from rollouthub.plugins.entry_points import TRAINER_ADAPTERS, plugins
from rollouthub.plugins.lookup import find_plugin
from rollouthub.rollout import Intervention
from rollouthub.trainers.trainer_adapter import ConvertingAdapter, TrainerAdapter, trainer_adapters
from rollouthub.values import Float32s, Int32s
from tests.export.made import rollout, turn
from tests.plugins.stranger import names_of, register

STRANGER = "acme/tutor"
CREDIT = "| system | rewards of turns and of spans | rewards of seats | verdicts on groups |"
ROOT = Path(__file__).parents[2]


class Tutor:
    """A training system of somebody else's, written from the protocol alone."""

    system = "Tutor"
    packages: Mapping[str, str | None] = {"acme_tutor": None}
    tested_with = "2.0"
    entries = (f"{__name__}.lessons",)
    page = "https://acme.example/tutor"

    def convert(self, rollouts: Sequence[Rollout]) -> object:
        return lessons(rollouts)


def lessons(rollouts: Sequence[Rollout]) -> list[list[int]]:
    return [row.segment.token_ids.tolist() for each in rollouts for row in training_rows(each)]


@pytest.fixture(params=names_of(TRAINER_ADAPTERS, STRANGER))
def adapter(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TrainerAdapter:
    """Each adapter."""
    if request.param == STRANGER:
        register(tmp_path, monkeypatch, TRAINER_ADAPTERS, STRANGER, f"{__name__}:Tutor")
    return find_plugin(TRAINER_ADAPTERS, "trainer adapter", request.param, TrainerAdapter)


def test_adapters_are_imported_without_any_training_system() -> None:
    """In a process where none of the systems' packages can be found, installed here or not."""
    packages = sorted({package for _, adapter in trainer_adapters() for package in adapter.packages})
    hidden = "; ".join(f"sys.modules[{package!r}] = None" for package in [*packages, "torch", "ray", "transformers"])
    code = (
        f"import sys; {hidden}; from rollouthub.trainers.trainer_adapter import *; print(len(list(trainer_adapters())))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.strip() == str(len(plugins(TRAINER_ADAPTERS))), done.stderr


def test_every_name_it_offers_is_there_or_says_which_system_it_needs(adapter: TrainerAdapter) -> None:
    assert adapter.system
    assert adapter.entries
    for entry in adapter.entries:
        module, _, name = entry.rpartition(".")
        home = import_module(module)
        try:
            assert getattr(home, name) is not None
        except ModuleNotFoundError as error:
            assert error.name in adapter.packages
            assert adapter.system in str(error)
            assert adapter.page in str(error)


def test_its_page_names_what_it_offers_and_the_version_that_was_tested(adapter: TrainerAdapter) -> None:
    if re.match("https?://", adapter.page):
        return
    words = (ROOT / adapter.page).read_text()
    assert adapter.system in words
    assert adapter.tested_with in words
    for entry in adapter.entries:
        module, _, name = entry.rpartition(".")
        assert name in words
        assert module in words or module.rpartition(".")[0] in words
    table = (ROOT / "docs" / "trainers.md").read_text()
    assert adapter.page.removeprefix("docs/") in table
    assert adapter.tested_with in table


def group() -> list[Rollout]:
    """Two rollouts to learn from, whose ids can be told from all other numbers."""
    return [
        rollout(
            turn(0, [7001, 7002, 7003], [7004, 7005 + sample]),
            turn(1, [7001, 7002, 7003, 7004, 7005 + sample, 7010], [7020, 7030 + sample, 7021]),
            sample=sample,
            reward=float(sample),
        )
        for sample in range(2)
    ]


def converted(adapter: ConvertingAdapter, rollouts: Sequence[Rollout]) -> object:
    """What it makes of a group; skipped where its system is needed and not here."""
    try:
        return adapter.convert(rollouts)
    except ModuleNotFoundError as error:
        pytest.skip(str(error))


def sequences(value: Any) -> Iterator[list[Any]]:
    """Every list of numbers within a value, whoever made it."""
    if isinstance(value, Int32s | Float32s) or hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        for each in cast(Mapping[Any, Any], value).values():
            yield from sequences(each)
    elif isinstance(value, list | tuple):
        items = list(cast(Sequence[Any], value))
        if items and all(isinstance(item, int) for item in items):
            yield items
        else:
            for each in items:
                yield from sequences(each)
    elif isinstance(value, msgspec.Struct):
        yield from sequences(msgspec.structs.asdict(value))
    elif hasattr(value, "batch"):  # veRL's
        yield from sequences(dict(value.batch))
    elif hasattr(value, "__dict__"):
        yield from sequences(vars(value))


def holds(found: Sequence[Sequence[int]], ids: Sequence[int]) -> bool:
    return any(
        list(each[place : place + len(ids)]) == list(ids) for each in found for place in range(len(each) - len(ids) + 1)
    )


def test_token_ids_pass_through_unchanged(adapter: TrainerAdapter) -> None:
    if not isinstance(adapter, ConvertingAdapter):
        return
    rollouts = group()
    found = list(sequences(converted(adapter, rollouts)))
    for spoken in (spoken for each in rollouts for spoken in each.turns):
        assert spoken.output_token_ids is not None
        assert holds(found, spoken.output_token_ids.tolist())
    assert holds(found, [7001, 7002, 7003])


REFUSED: Mapping[Refusal, dict[str, Any]] = {
    Refusal.UNSCORED: {"reward": None},
    Refusal.HELPED: {"told": (Intervention(at=0.1, seat="agent", text="try 7"),)},
    Refusal.PRIVILEGED: {"trainable": False, "trainable_reason": "played the reference solution"},
    Refusal.SUSPECT: {"score": Score(reward=1.0, suspect="the clock was set back")},
}


@pytest.mark.parametrize("refusal", REFUSED)
def test_what_must_not_be_learnt_from_is_refused_by_name(adapter: TrainerAdapter, refusal: Refusal) -> None:
    """By an error, or in the record itself, where the system wants one for each rollout: then without its answer."""
    if not isinstance(adapter, ConvertingAdapter):
        return
    refused = rollout(turn(0, [7001, 7002], [7666, 7667]), **REFUSED[refusal])
    try:
        made = converted(adapter, [refused])
    except NotTrainable as error:
        assert error.refused.refusal is refusal
    except HubError as error:
        assert refusal.value in str(error)
    else:
        assert not holds(list(sequences(made)), [7666, 7667])
        assert refusal.value in repr(made)


def test_seats_with_different_rewards_are_converted_or_refused_as_its_documentation_says(
    adapter: TrainerAdapter,
) -> None:
    """Who takes one seat, or one number, refuses by name; who takes several has a row in the table that says so."""
    if not isinstance(adapter, ConvertingAdapter) or adapter.page.startswith("http"):
        return
    turns = (turn(0, [7001], [7010], agent="buyer"), turn(1, [7002], [7011], agent="seller", parent=None))
    divided = rollout(*turns).model_copy(
        update={"score": Score(reward=0.5, seat_rewards={"buyer": 1.0, "seller": 0.0})}
    )
    try:
        is_taken = bool(converted(adapter, [divided]))
    except HubError as error:
        assert Refusal.SEVERAL_SEATS.value in str(error)
        is_taken = False
    table = (ROOT / "docs" / "trainers.md").read_text().partition(CREDIT)[2].partition("\n\n")[0]
    rows = [row.split(" | ") for row in table.splitlines() if adapter.system in row.split(" | ")[0]]
    seats = [cells[2] for cells in rows]
    assert seats
    if is_taken:
        assert any(not told.startswith(("one ", "no place")) for told in seats)
    else:
        assert any("one seat" in told or "one reward" in told for told in seats)


def test_ids_of_a_picture_are_no_rows_without_its_pixels(adapter: TrainerAdapter) -> None:
    """A conversion knows no run's directory, and so no bytes: whoever shows pictures is refused in words."""
    if not isinstance(adapter, ConvertingAdapter) or adapter.page.startswith("http"):
        return
    shown = Message(role="user", content=(Media(digest=f"sha256:{0:064x}", mime_type="image/png"),))
    seen = rollout(turn(0, [7001, 7002], [7003, 7004], messages=(shown,)))
    with pytest.raises(HubError, match="shows pictures"):
        converted(adapter, [seen])
