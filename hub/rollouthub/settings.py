"""Settings declared once, as a model's fields: name, type, default, description and command-line option."""

import inspect
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin

from annotated_types import Ge, Gt, Le
from pydantic import BaseModel, ValidationError

from rollouthub.errors import ConfigError, UnknownNameError, UsageError

_Model = TypeVar("_Model", bound=BaseModel)
_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Option:
    """How the command line takes a setting, if `--NAME` of its field's name is not enough.

    It is part of the field's type: `limit: Annotated[int | None, Option(short="-l", panel="Tasks")]`. On a field that
    holds further settings, it gives their panel.
    """

    flag: str = ""
    """The flag; by default `--NAME` of the field's name. `--YES/--NO` is a pair of flags; a word without dashes is
    an argument.
    """
    short: str = ""
    metavar: str = ""
    panel: str = ""
    """The panel of `--help` in which the option is shown."""
    off: str = ""
    """A further flag, which empties a list that has a default."""
    off_help: str = ""
    read: Callable[[str, Any], Any] | None = None
    """Parses the typed text: takes the option's name and the text (or texts), returns the setting's value."""
    show: Callable[[Any], str] = str
    """Formats a default as a user would type it."""
    is_offered: bool = True
    names: Literal["", "environment", "agent", "model", "format"] = ""
    """What kind of name the option takes, for shell completion; `format` is one of `hub export`."""


class OnResume(StrEnum):
    """How a setting may change when a run is resumed; it is part of the field's type.

    A setting may not change if neither it nor the table that holds it is marked.
    """

    HARMLESS = "harmless"
    """It does not change what a rollout means."""
    PRICE = "price"
    """It is harmless unless a cost limit of episodes depends on it."""
    RECORDED = "recorded"
    """Its effect is compared, which is recorded with each environment, instead of its text in the request."""


FILE_ONLY = Option(is_offered=False)
"""A setting without an option: only files and Python set it."""


def seconds_of(option: str, given: str) -> float:
    """Read a duration as a user writes it: `90`, `90s`, `15m`, `1.5h`; returns seconds.

    Raises:
        ConfigError: the text is no duration above 0.
    """
    found = re.fullmatch(r"(\d+\.?\d*|\.\d+)\s*(s|m|min|h|d)?", given.strip())
    if found is None or not float(found[1]):
        raise ConfigError(f"{option} {given!r} is no time above 0; say it as 90s, 15m or 2h")
    return float(found[1]) * {"m": 60, "min": 60, "h": 3600, "d": 86400}.get(found[2], 1)


def duration(seconds: float) -> str:
    """Seconds in a readable form: `90 s`, `15 min`, `2 h`."""
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def time_option(flag: str, panel: str = "") -> Option:
    """A command-line option whose value is a duration with a unit."""
    return Option(flag, metavar="TIME", panel=panel, read=seconds_of, show=duration)


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of a model, or of a model within it."""

    path: tuple[str, ...]
    """Names of the fields that lead to the setting: `("limits", "max_turns")`."""
    annotation: Any
    default: Any
    help: str
    option: Option
    least: float | None = None
    above: float | None = None
    """A lower bound that the value must exceed."""
    most: float | None = None

    @property
    def key(self) -> str:
        """The setting's name in a file: `limits.max_turns`."""
        return ".".join(self.path)

    @property
    def flag(self) -> str:
        """The setting's name on the command line."""
        return self.option.flag or f"--{self.path[-1].replace('_', '-')}"

    @property
    def is_pair(self) -> bool:
        """Whether the setting has one flag for yes and one for no."""
        return "/" in self.flag

    @property
    def is_repeatable(self) -> bool:
        """Whether the option may be given several times."""
        return self.is_a(tuple) or self.is_a(dict)

    @property
    def default_text(self) -> str:
        """Its default as a user would type it; empty if there is none."""
        if not self.default:
            return ""
        if self.is_pair:
            return self.flag.partition("/")[0].lstrip("-")
        values: tuple[Any, ...] = self.default if self.is_a(tuple) else (self.default,)
        return ", ".join(self.option.show(value) for value in values)

    @property
    def types(self) -> tuple[Any, ...]:
        """The types that a value may have, except None."""
        members = get_args(self.annotation) if get_origin(self.annotation) in (Union, UnionType) else (self.annotation,)
        plain = (get_args(member)[0] if get_origin(member) is Annotated else member for member in members)
        return tuple(member for member in plain if member is not NoneType)

    @property
    def choices(self) -> tuple[str, ...]:
        """The words a value may be, if the setting is a choice of words; else empty."""
        kind = self.types[0] if len(self.types) == 1 else None
        if isinstance(kind, type) and issubclass(kind, StrEnum):
            return tuple(kind)
        return get_args(kind) if get_origin(kind) is Literal else ()

    def is_a(self, kind: type) -> bool:
        """Whether the setting's only type is `kind`, or a generic of it such as `tuple[…]`."""
        return len(self.types) == 1 and kind in (self.types[0], get_origin(self.types[0]))


def settings_of(model: type[BaseModel], path: tuple[str, ...] = (), panel: str = "") -> Iterator[Setting]:
    """All settings of a model; those of a model within a field take that field's place."""
    for name, field in model.model_fields.items():
        option = next((entry for entry in field.metadata if isinstance(entry, Option)), Option())
        where = option.panel or panel
        kind: Any = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from settings_of(kind, (*path, name), where)
            continue
        least = [bound.ge for bound in field.metadata if isinstance(bound, Ge)]
        above = [bound.gt for bound in field.metadata if isinstance(bound, Gt)]
        most = [bound.le for bound in field.metadata if isinstance(bound, Le)]
        yield Setting(
            (*path, name),
            kind,
            field.get_default(call_default_factory=False),
            field.description or "",
            replace(option, panel=where),
            *(cast(float, bounds[0]) if bounds else None for bounds in (least, above, most)),
        )


def on_resume(model: type[BaseModel], name: str) -> OnResume | None:
    """How the field of this name may change when a run is resumed; None if it may not, or there is none."""
    field = model.model_fields.get(name)
    return next((mark for mark in field.metadata if isinstance(mark, OnResume)), None) if field is not None else None


def check_settings(
    model: type[_Model], values: Mapping[str, Any], origin: str, other_names: Collection[str] = ()
) -> _Model:
    """Make a model from raw settings. `other_names` are further names to suggest if a key is unknown.

    Raises:
        ConfigError: names each key that is not valid, and its origin.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        lines: list[str] = []
        for problem in error.errors(include_url=False):
            key = ".".join(str(step) for step in problem["loc"])
            if problem["type"] == "extra_forbidden":
                section = problem["loc"][:-1]
                known = [*_names_in(model, section), *(() if section else other_names)]
                lines.append(f"{origin}: {_unknown(model, key, known)}")
            elif problem["type"] == "missing":
                lines.append(f"{origin}: {key} is missing")
            elif not key and problem["type"] == "value_error":  # a rule of the model over several settings
                lines.append(f"{origin}: {problem['msg'].removeprefix('Value error, ')}")
            elif not key:
                lines.append(f"{origin}: the settings must be a table, this is {problem.get('input')!r:.100}")
            else:
                lines.append(f"{origin}: {key} = {problem.get('input')!r}: {problem['msg']}")
        raise ConfigError("\n".join(lines)) from None
    except UsageError as error:  # of a model's name or address
        raise ConfigError(f"{origin}: {error}") from None


def takes_settings(*models: type[BaseModel]) -> Callable[[_Function], _Function]:
    """Give a function with `**settings` a signature that lists the models' fields, for editors and notebooks."""

    def taking(function: _Function) -> _Function:
        signature = inspect.signature(function)
        own = {name: entry for name, entry in signature.parameters.items() if entry.kind is not entry.VAR_KEYWORD}
        for name, field in (pair for model in models for pair in model.model_fields.items()):
            default = field.get_default(call_default_factory=False)
            setting = inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=field.annotation
            )
            own.setdefault(name, setting)
        function.__signature__ = signature.replace(parameters=[*own.values()])  # pyright: ignore[reportFunctionMemberAccess]  # where inspect looks
        return function

    return taking


def _unknown(model: type[BaseModel], key: str, known: Collection[str]) -> Exception:
    """The error for an unknown key: suggests the setting whose last field or whose option has this name."""
    option = f"--{key.replace('_', '-')}"
    meant = [setting.key for setting in settings_of(model) if setting.path[-1] == key or setting.flag == option]
    if not meant:
        return UnknownNameError("setting", key, known)
    return ConfigError(f"no setting is named {key!r}; did you mean {' or '.join(map(repr, meant))}?")


def _names_in(model: Any, section: tuple[int | str, ...]) -> list[str]:
    """The names of the settings in the section where an unknown one was found."""
    for step in section:
        if (generic := get_origin(model)) in (dict, tuple):
            model = get_args(model)[generic is dict]
            continue
        if not (isinstance(model, type) and issubclass(model, BaseModel)):
            return []
        model = model.model_fields[str(step)].annotation if str(step) in model.model_fields else None
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        return []
    return [".".join([*map(str, section), name]) for name in model.model_fields]
