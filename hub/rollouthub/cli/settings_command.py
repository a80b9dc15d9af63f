"""Commands whose options are generated from model fields: run settings, and options of their own."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import typer
from pydantic import BaseModel, ValidationError
from typer.core import TyperCommand

from rollouthub.cli.command_group import FunctionCommand
from rollouthub.errors import ConfigError, UnknownNameError

if TYPE_CHECKING:
    from rollouthub.settings import Setting

_GIVEN, _OWN, _WORDS = "rollouthub.settings", "rollouthub.options", "rollouthub.words."
_Options = TypeVar("_Options", bound=BaseModel)


class OptionsCommand(TyperCommand):
    """A command whose options are the fields of a pydantic model; its function reads them with `given_options`."""

    options: type[BaseModel] = BaseModel

    @classmethod
    def of(cls, function: Callable[..., None]) -> FunctionCommand:
        """Decorate the function that this class reads the command line for."""
        return FunctionCommand(function, cls)

    def get_params(self, ctx: Any) -> list[Any]:
        """The generated options and the function's own parameters, with those of one help panel next to each other."""
        panels: dict[str, int] = {}
        declared = [parameter for parameters in self._parameters.values() for parameter in parameters]
        parameters = [*declared, *super().get_params(ctx)]
        for parameter in parameters:
            panels.setdefault(_panel(parameter), len(panels))
        return sorted(parameters, key=lambda parameter: panels[_panel(parameter)])

    def invoke(self, ctx: Any) -> Any:
        """Turn the typed options into settings, store them in the context, and run the command."""
        from rollouthub.cli.setting_options import values_of, words_of

        for kind, parameters in self._parameters.items():
            typed = {parameter.name: ctx.params.pop(parameter.name) for parameter in parameters}
            ctx.meta[kind] = values_of(self._settings[kind], typed)
            ctx.meta[_WORDS + kind] = words_of(self._settings[kind], typed)
        return super().invoke(ctx)

    @cached_property
    def _settings(self) -> "Mapping[str, tuple[Setting, ...]]":
        """Settings by the context key under which their values are stored, in the order of the help text."""
        from rollouthub.settings import settings_of

        return {_OWN: tuple(settings_of(self.options))}

    @cached_property
    def _parameters(self) -> dict[str, list[Any]]:
        from rollouthub.cli.setting_options import parameters_of

        return {kind: parameters_of(settings) for kind, settings in self._settings.items()}


class SettingsCommand(OptionsCommand):
    """A command that also takes settings of `RunRequest`; its function reads them with `given_settings`.

    `RunRequest` is imported when the command is used, so that `hub --help` is fast.
    """

    taken: tuple[str, ...] = ()
    """Names of the settings, or of whole tables such as `limits`, that the command takes; empty for all."""
    left_out: tuple[str, ...] = ()

    @cached_property
    def _settings(self) -> "Mapping[str, tuple[Setting, ...]]":
        from rollouthub.engine.run_request import RunRequest
        from rollouthub.settings import settings_of

        offered = [setting for setting in settings_of(RunRequest) if setting.option.is_offered]
        names = {name for setting in offered for name in (setting.key, setting.path[0])}
        assert names >= {*self.taken, *self.left_out}, "no such setting"
        taken = tuple(
            setting
            for setting in offered
            if (not self.taken or {setting.key, setting.path[0]} & {*self.taken})
            and not {setting.key, setting.path[0]} & {*self.left_out}
        )
        return {_GIVEN: taken, _OWN: tuple(settings_of(self.options))}


def given_settings(ctx: typer.Context) -> dict[str, Any]:
    """The settings given on the command line, as a tree of `RunRequest`'s fields, without those that were not given."""
    return ctx.meta[_GIVEN]


def given_words(ctx: typer.Context) -> list[str]:
    """The settings given on the command line, as words of a command line."""
    return ctx.meta[_WORDS + _GIVEN]


def given_options(ctx: typer.Context, model: type[_Options]) -> _Options:
    """The command's own options as an instance of `model`.

    Raises:
        ConfigError: a value is invalid.
    """
    from rollouthub.settings import settings_of

    try:
        return model.model_validate(ctx.meta[_OWN])
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        path = tuple(step for step in problem["loc"] if isinstance(step, str))
        setting = next(each for each in settings_of(model) if each.path == path)
        if setting.choices:
            raise UnknownNameError(f"value of {setting.flag}", str(problem["input"]), setting.choices) from None
        raise ConfigError(f"{setting.flag} {problem['input']!r}: {problem['msg']}") from None


def _panel(parameter: Any) -> str:
    return getattr(parameter, "rich_help_panel", None) or ""
