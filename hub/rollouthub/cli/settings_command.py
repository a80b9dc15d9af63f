"""Commands that take settings of a run as options, beside what is theirs."""

from functools import cached_property
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand

if TYPE_CHECKING:
    from rollouthub.settings import Setting

_GIVEN = "rollouthub.settings"


class SettingsCommand(TyperCommand):
    """A command whose options are settings of `RunRequest`; its function gets them by `given_settings`.

    The model of the settings is loaded when the command is used, so that `hub --help` need not.
    """

    taken: tuple[str, ...] = ()
    """Which settings, or tables of them (`limits`); all where none is named."""
    left_out: tuple[str, ...] = ()

    def get_params(self, ctx: Any) -> list[Any]:
        """The settings, and the command's own parameters; those of a panel side by side."""
        panels: dict[str, int] = {}
        parameters = [*self._parameters, *super().get_params(ctx)]
        for parameter in parameters:
            panels.setdefault(_panel(parameter), len(panels))
        return sorted(parameters, key=lambda parameter: panels[_panel(parameter)])

    def invoke(self, ctx: Any) -> Any:
        """Make settings of what was typed, and run the command."""
        from rollouthub.cli.setting_options import values_of

        typed = {parameter.name: ctx.params.pop(parameter.name) for parameter in self._parameters}
        ctx.meta[_GIVEN] = values_of(self._settings, typed)
        return super().invoke(ctx)

    @cached_property
    def _settings(self) -> "tuple[Setting, ...]":
        from rollouthub.engine.run_request import RunRequest
        from rollouthub.settings import settings_of

        offered = [setting for setting in settings_of(RunRequest) if setting.option.is_offered]
        names = {name for setting in offered for name in (setting.key, setting.path[0])}
        assert names >= {*self.taken, *self.left_out}, "no such setting"
        return tuple(
            setting
            for setting in offered
            if (not self.taken or {setting.key, setting.path[0]} & {*self.taken})
            and not {setting.key, setting.path[0]} & {*self.left_out}
        )

    @cached_property
    def _parameters(self) -> list[Any]:
        from rollouthub.cli.setting_options import parameters_of

        return parameters_of(self._settings)


def given_settings(ctx: typer.Context) -> dict[str, Any]:
    """The settings that a command was given, as a tree of `RunRequest`'s fields; what was not given is absent."""
    return ctx.meta[_GIVEN]


def _panel(parameter: Any) -> str:
    return getattr(parameter, "rich_help_panel", None) or ""
