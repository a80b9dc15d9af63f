"""Settings read from a model's fields: name, type, default, meaning and command-line option, written down once."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

from annotated_types import Ge, Gt, Le
from pydantic import BaseModel


@dataclass(frozen=True, slots=True)
class Option:
    """How the command line takes a setting, where `--NAME` of its field's name is not enough.

    It stands in the field's type: `limit: Annotated[int | None, Option(short="-n", panel="Tasks")]`. Of a field that
    holds further settings, it gives those their panel.
    """

    flag: str = ""
    """`--NAME`, of the field's name by default; a word without dashes is an argument."""
    short: str = ""
    metavar: str = ""
    panel: str = ""
    """The panel of `--help` that shows it."""
    off: str = ""
    """A further flag that empties a list which is not empty by default."""
    off_help: str = ""
    read: Callable[[str, Any], Any] | None = None
    """Reads what was typed: takes the option's name and the text (or texts), gives the setting's value."""
    show: Callable[[Any], str] = str
    """Writes a default as a person would give it."""
    is_offered: bool = True


FILE_ONLY = Option(is_offered=False)
"""A setting that has no option: files and Python set it."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting, wherever in its model it is."""

    path: tuple[str, ...]
    """Names of the fields that lead to it: `("limits", "max_turns")`."""
    annotation: Any
    default: Any
    help: str
    option: Option
    least: float | None = None
    most: float | None = None

    @property
    def key(self) -> str:
        """Its name in a file: `limits.max_turns`."""
        return ".".join(self.path)

    @property
    def flag(self) -> str:
        """Its name on the command line."""
        return self.option.flag or f"--{self.path[-1].replace('_', '-')}"

    @property
    def default_text(self) -> str:
        """Its default as a person would give it; empty where nothing is set."""
        if not self.default:
            return ""
        values: tuple[Any, ...] = self.default if self.is_a(tuple) else (self.default,)
        return ", ".join(self.option.show(value) for value in values)

    @property
    def types(self) -> tuple[Any, ...]:
        """What it may be, absence left out."""
        members = get_args(self.annotation) if get_origin(self.annotation) in (Union, UnionType) else (self.annotation,)
        plain = (get_args(member)[0] if get_origin(member) is Annotated else member for member in members)
        return tuple(member for member in plain if member is not NoneType)

    @property
    def choices(self) -> tuple[str, ...]:
        """The words it may be, of a setting that is one of several words."""
        return get_args(self.types[0]) if len(self.types) == 1 and get_origin(self.types[0]) is Literal else ()

    def is_a(self, kind: type) -> bool:
        """Whether its values are of a plain type, or of a generic one such as `tuple`."""
        return len(self.types) == 1 and kind in (self.types[0], get_origin(self.types[0]))


def settings_of(model: type[BaseModel], path: tuple[str, ...] = (), panel: str = "") -> Iterator[Setting]:
    """All settings of a model; those of a model in a field come in that field's place."""
    for name, field in model.model_fields.items():
        option = next((entry for entry in field.metadata if isinstance(entry, Option)), Option())
        where = option.panel or panel
        kind: Any = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from settings_of(kind, (*path, name), where)
            continue
        least = [bound.ge for bound in field.metadata if isinstance(bound, Ge)]
        least += [bound.gt for bound in field.metadata if isinstance(bound, Gt)]
        most = [bound.le for bound in field.metadata if isinstance(bound, Le)]
        yield Setting(
            (*path, name),
            kind,
            field.get_default(call_default_factory=False),
            field.description or "",
            replace(option, panel=where),
            cast(float, least[0]) if least else None,
            cast(float, most[0]) if most else None,
        )
