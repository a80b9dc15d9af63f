"""Data sets for trainers, read from finished or running runs one group at a time."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from rollouthub.errors import ConfigError, UsageError
from rollouthub.export.export_format import find_export_format
from rollouthub.export.filters import FilterName
from rollouthub.export.formats.data_columns import Row
from rollouthub.export.left_out import LeftOut
from rollouthub.export.not_trainable import Refusal, why_refused
from rollouthub.export.packing import Packing, packed_columns
from rollouthub.export.pairs import earned
from rollouthub.export.recipe import Recipe
from rollouthub.export.scored_group import RunSource, ScoredGroup
from rollouthub.rollout import Rollout
from rollouthub.store.grouped_reader import BrokenRecord
from rollouthub.store.reader import RunReader
from rollouthub.store.record_rows import Chosen


class MixedModels(UsageError):
    """A data set would mix rollouts of several models."""

    def __init__(self, models: Sequence[str | None], *, has_tokens: bool) -> None:
        names = " and ".join(repr(model) for model in models)
        way = (
            "token ids mean nothing to another model's tokenizer: export each run by itself"
            if has_tokens
            else "export each run by itself, or add --mixed-models if one set of both is what you want"
        )
        super().__init__(f"the rollouts were played with {names} ({Refusal.OTHER_TOKENIZER.value}); {way}")


@dataclass
class ReadProgress:
    """How much of the runs has been read."""

    left_out: LeftOut = field(default_factory=LeftOut)
    broken: list[BrokenRecord] = field(default_factory=list[BrokenRecord])
    read: int = 0
    """How many records were read, including broken ones and those left out."""
    groups: int = 0
    rows: int = 0
    exact_rows: int = 0
    """Rows in which every turn has its engine's token ids."""

    @property
    def used(self) -> int:
        """Rollouts that were read and not left out."""
        return self.read - self.left_out.total


class DataSet:
    """The rows of a recipe over runs; each iteration reads the runs again."""

    def __init__(
        self,
        readers: Sequence[RunReader],
        recipe: Recipe,
        tick: Callable[["ReadProgress"], None] | None = None,
        chosen: Sequence[Chosen | None] | None = None,
    ) -> None:
        """Inspect the runs; `tick` is called after each group that was read. `chosen` names the rollouts to take of
        each run, None all of them; like the recipe's filters it leaves the figures of groups as they are.

        Raises:
            UsageError: there is no such format, it does not use an option of the recipe, or rows with pictures are to
            be packed.
            MixedModels: the runs are of several models, and the recipe does not allow that.
        """
        self.format = find_export_format(recipe)
        self._readers, self.recipe, self._tick = readers, recipe, tick
        self._chosen = [None] * len(readers) if chosen is None else chosen
        self.progress = ReadProgress()
        self._models: list[str | None] = []
        for reader in readers:
            for model in reader.models():
                self._meet(model)
        self.has_images = any(reader.has_media() for reader in readers)
        self.columns = self.format.columns(recipe, self.has_images)
        self.packing: Packing | None = None
        """How rows are packed; None if they are not."""
        if recipe.pack is not None:
            if self.has_images:
                raise ConfigError("the runs show pictures, whose places in a packed sequence no trainer can find")
            self.packing = Packing(self.columns, recipe.pack, recipe.too_long == "leave_out")
            self.columns = packed_columns(self.columns)

    @property
    def planned(self) -> int:
        """How many records there are to read."""
        return sum(sum(reader.outcomes().values()) for reader in self._readers)

    def __iter__(self) -> Iterator[Row]:
        """Yield every row; rollouts that are left out are counted in `progress` meanwhile.

        Raises:
            MixedModels: a record is of another model than those before.
            ConfigError: a row is too long to be packed.
        """
        self.progress = ReadProgress()
        with closing(self._made()) as made:
            for row in made if self.packing is None else self.packing.pack(made, self.progress.left_out):
                self.progress.rows += 1
                self.progress.exact_rows += row["token_exact"]
                yield row

    def _made(self) -> Generator[Row]:
        for reader, chosen in zip(self._readers, self._chosen, strict=True):
            source, repeats = RunSource(reader), reader.info.repeats
            for records in reader.groups(effective=not self.recipe.all_attempts):
                self.progress.read += len(records)
                self.progress.groups += 1
                group = self._scored(records, source, max(repeats, len(records)), chosen)
                yield from self._rows(group)
                if self._tick is not None:
                    self._tick(self.progress)

    def _rows(self, group: ScoredGroup) -> Iterator[Row]:
        return self.format.rows(group, self.recipe, self.progress.left_out) if group.rollouts else iter(())

    def _scored(
        self, records: Sequence[Rollout | BrokenRecord], source: RunSource, planned: int, chosen: Chosen | None
    ) -> ScoredGroup:
        """The members that may be trained on and pass the filters; all others are counted."""
        recipe, left_out, need = self.recipe, self.progress.left_out, self.format.need(self.recipe)
        wanted: list[Rollout] = []
        for record in records:
            if isinstance(record, BrokenRecord):
                self.progress.broken.append(record)
                left_out.add(Refusal.CORRUPT.value, record.name, record.problem)
            elif (rejected := recipe.filters.rejects_task(record)) is not None:
                left_out.add(rejected[0].value, record.rollout_id, rejected[1])
            elif not recipe.untrainable and (refused := why_refused(record, need, suspect=recipe.suspect)) is not None:
                left_out.refuse(refused)
            else:
                self._meet(record.model)
                wanted.append(record)
        if self.format.takes_whole_groups and not recipe.incomplete and 0 < len(wanted) < planned:
            reason = f"{len(wanted)} of the {planned} of its group may be learnt from"
            for rollout in wanted:
                left_out.add(Refusal.INCOMPLETE_GROUP.value, rollout.rollout_id, reason)
            wanted = []
        return self._filtered(wanted, source, chosen)

    def _filtered(self, wanted: Sequence[Rollout], source: RunSource, chosen: Chosen | None) -> ScoredGroup:
        recipe, left_out = self.recipe, self.progress.left_out
        scored = tuple(rollout for rollout in wanted if rollout.reward is not None)
        rewards = [reward for rollout in scored if (reward := earned(rollout, recipe.seat)) is not None]
        reason = recipe.filters.rejects_group(rewards)
        kept: list[Rollout] = []
        for rollout in wanted:
            if chosen is not None and (rollout.rollout_id, rollout.attempt) not in chosen:
                left_out.add(FilterName.WHERE.value, rollout.rollout_id, "it does not match the filter")
            elif rollout.score is None:  # asked for with `untrainable`
                kept.append(rollout)
            elif reason is not None:
                left_out.add(FilterName.RANGE.value, rollout.rollout_id, reason)
            elif (rejected := recipe.filters.rejects(rollout, recipe.seat)) is not None:
                left_out.add(rejected[0].value, rollout.rollout_id, rejected[1])
            else:
                kept.append(rollout)
        return ScoredGroup(tuple(kept), source, self.has_images, scored)

    def _meet(self, model: str | None) -> None:
        if model not in self._models:
            self._models.append(model)
        if len(self._models) > 1 and not self.recipe.mixed_models:
            raise MixedModels(self._models, has_tokens=self.format.has_tokens(self.recipe))
