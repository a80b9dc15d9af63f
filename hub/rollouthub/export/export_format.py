"""`ExportFormat`: the interface of a data set format, and the lookup by name."""

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from rollouthub.errors import ConfigError
from rollouthub.export.formats.data_columns import Columns, Row
from rollouthub.export.left_out import LeftOut
from rollouthub.export.not_trainable import Need
from rollouthub.export.recipe import FORMAT_OPTIONS, Recipe
from rollouthub.export.scored_group import ScoredGroup
from rollouthub.plugins.entry_points import EXPORT_FORMATS
from rollouthub.plugins.lookup import find_plugin


@runtime_checkable
class ExportFormat(Protocol):
    """One data set format: which rollouts it takes, and the rows that it makes of a group."""

    @property
    def options(self) -> frozenset[str]:
        """The fields in `FORMAT_OPTIONS` of a `Recipe` that this format uses; others are refused."""
        ...

    @property
    def takes_whole_groups(self) -> bool:
        """Whether a group is left out if members are missing or must not be trained on."""
        ...

    @property
    def line_column(self) -> str | None:
        """The column that alone makes a line of JSON, and may hold large nested arrays; None if the line is the
        whole row.
        """
        ...

    def has_tokens(self, recipe: Recipe) -> bool:
        """Whether rows hold token ids, so that rollouts of different models must not be mixed."""
        ...

    def need(self, recipe: Recipe) -> Need:
        """What a rollout must have; rollouts without it are left out before `rows` is called."""
        ...

    def columns(self, recipe: Recipe, has_images: bool) -> Columns:
        """The columns of a row, in order, with their kinds; `token_exact` must be one of them."""
        ...

    def rows(self, group: ScoredGroup, recipe: Recipe, left_out: LeftOut) -> Iterator[Row]:
        """The rows of a group, with exactly the keys of `columns`; a rollout that is in no row is added to
        `left_out`.
        """
        ...


def find_export_format(recipe: Recipe) -> ExportFormat:
    """The format that a recipe names.

    Raises:
        UnknownNameError: there is no such format.
        ConfigError: the format cannot be loaded, or does not use an option of the recipe.
    """
    name = recipe.format
    found = find_plugin(EXPORT_FORMATS, "export format", name, ExportFormat)
    for option in sorted(FORMAT_OPTIONS - found.options):
        if (value := getattr(recipe, option)) not in (None, False):
            taken = ", ".join(sorted(found.options)) or "no option of the kind"
            raise ConfigError(f"{option} = {value} means nothing to {name}, which takes {taken}")
    if not found.has_tokens(recipe):
        if recipe.pack is not None:
            raise ConfigError(f"pack is of token ids, and {name} is text unless tokens are asked for: add --tokens")
        return found
    if recipe.tokens is False:
        raise ConfigError(f"{name} is made of token ids and has none left without; for words take sft, dpo or kto")
    if recipe.mixed_models:
        raise ConfigError(
            "mixed_models is for words: token ids of two models mean different things; "
            "take --no-tokens, or export each run by itself"
        )
    return found
