"""`ExportFormat`: one kind of data set, and how it is found by name."""

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from rollouthub.errors import ConfigError
from rollouthub.export.formats.data_columns import Columns, Row
from rollouthub.export.left_out import LeftOut
from rollouthub.export.not_trainable import Need
from rollouthub.export.recipe import FORMAT_OPTIONS, Recipe
from rollouthub.export.scored_group import ScoredGroup
from rollouthub.plugins.lookup import find_plugin

EXPORT_FORMATS = "rollouthub.export_formats"
"""Name → a class, made without arguments, that follows `ExportFormat`."""


@runtime_checkable
class ExportFormat(Protocol):
    """One kind of data set: which rollouts it takes, and the rows that a group of them makes."""

    @property
    def options(self) -> frozenset[str]:
        """The fields of `Recipe` that mean something to it, of those in `FORMAT_OPTIONS`; others are refused."""
        ...

    @property
    def takes_whole_groups(self) -> bool:
        """Whether a group is left out when members of it are missing or may not be learnt from."""
        ...

    @property
    def line_column(self) -> str | None:
        """The one column that is a line of JSON by itself, numbers deep within it; None where the row is."""
        ...

    def has_tokens(self, recipe: Recipe) -> bool:
        """Whether token ids are in the rows, so that rollouts of two models must not stand in one data set."""
        ...

    def need(self, recipe: Recipe) -> Need:
        """What a rollout must have to be taken; what lacks it is left out before `rows` sees it."""
        ...

    def columns(self, recipe: Recipe, has_images: bool) -> Columns:
        """The columns of a row, in order; `token_exact` is one of them."""
        ...

    def rows(self, group: ScoredGroup, recipe: Recipe, left_out: LeftOut) -> Iterator[Row]:
        """The rows of a group, with exactly the columns' keys; a rollout in none of them is added to `left_out`."""
        ...


def find_export_format(recipe: Recipe) -> ExportFormat:
    """The format that a recipe names.

    Raises:
        UnknownNameError: there is no such format.
        ConfigError: it cannot be loaded, or an option of the recipe means nothing to it.
    """
    name = recipe.format
    found = find_plugin(EXPORT_FORMATS, "export format", name, ExportFormat)
    for option in sorted(FORMAT_OPTIONS - found.options):
        if (value := getattr(recipe, option)) not in (None, False):
            taken = ", ".join(sorted(found.options)) or "no option of the kind"
            raise ConfigError(f"{option} = {value} means nothing to {name}, which takes {taken}")
    if not found.has_tokens(recipe):
        return found
    if recipe.tokens is False:
        raise ConfigError(f"{name} is made of token ids and has none left without; for words take sft, dpo or kto")
    if recipe.mixed_models:
        raise ConfigError(
            "mixed_models is for words: token ids of two models mean different things; "
            "take --no-tokens, or export each run by itself"
        )
    return found
