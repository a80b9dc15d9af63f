"""Command groups that import a command only when it is used, so that help and completion are fast.

A command is an entry point of a group: a function typed for Typer, a `FunctionCommand`, or a Typer application.
"""

from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from rollouthub.cli.old_names import in_present_names

if TYPE_CHECKING:
    from rollouthub.plugins.entry_points import Plugin

COMMANDS = "rollouthub.commands"
"""Entry-point group of the commands of `hub`."""


@dataclass(frozen=True)
class FunctionCommand:
    """A command's function, with the click class that reads its command line."""

    function: Callable[..., None]
    kind: type[TyperCommand] = TyperCommand


class LazyCommands(MutableMapping[str, Any]):
    """The commands of an entry-point group by name, the hub's own and others', each imported on first use."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        """Return the command, importing it on first use."""
        if name not in self._loaded:
            plugin = self._registered(name)
            if plugin is None:
                raise KeyError(name)
            self._loaded[name] = _built(name, _load(plugin))
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        """Whether a command has this name; imports no command."""
        return name in self._loaded or self._registered(str(name)) is not None

    def __iter__(self) -> Iterator[str]:
        """Iterate over all names without importing a command."""
        from rollouthub.plugins.entry_points import plugins

        return iter(dict.fromkeys((*plugins(self._group), *self._loaded)))

    def __len__(self) -> int:
        """The number of commands."""
        return len(list(iter(self)))

    def __setitem__(self, name: str, command: Any) -> None:
        """Add a command object that is already built."""
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        """Always raise TypeError: a command cannot be removed."""
        raise TypeError(f"the command {name!r} cannot be taken away")

    def _registered(self, name: str) -> "Plugin | None":
        """The plug-in of this name; other distributions, whose names hold a `/`, are read only for such a name."""
        from rollouthub.plugins.entry_points import plugins, shipped_plugins

        return (plugins if "/" in name else shipped_plugins)(self._group).get(name)


class LazyGroup(TyperGroup):
    """A command group that imports its commands on first use, and suggests similar options for an unknown one."""

    entry_group = ""
    """Entry-point group of its commands."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = LazyCommands(self.entry_group)

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of the commands, without importing one."""
        return list(self.commands)

    def make_context(self, *args: Any, **more: Any) -> Any:
        """Parse the group's own options; an unknown option's error suggests similar ones."""
        try:
            return super().make_context(*args, **more)
        except Exception as slip:
            _name_the_nearest(slip)
            raise

    def invoke(self, ctx: Any) -> Any:
        """Parse the subcommand's arguments and run it; an unknown option's error suggests similar ones."""
        try:
            return super().invoke(ctx)
        except Exception as slip:
            _name_the_nearest(slip)
            raise


class AllCommands(LazyGroup):
    """The top-level command group `hub`, whose help fits one screen."""

    entry_group = COMMANDS

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command by its current or an earlier name."""
        return super().resolve_command(ctx, in_present_names(args))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of this name; None if there is none.

        Raises:
            ConfigError: the installation, which is older than its code, lacks one of the hub's own commands.
        """
        found = super().get_command(ctx, cmd_name)
        if found is None:
            from rollouthub.cli.overview import PANELS
            from rollouthub.plugins.entry_points import shipped_plugin

            if any(cmd_name in commands for commands in PANELS.values()):
                shipped_plugin(COMMANDS, "command", cmd_name)
        return found

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help text."""
        from rollouthub.cli.overview import overview

        for line in overview(f"{ctx.command_path} COMMAND [OPTIONS]"):
            formatter.write(f"{line}\n")


def _load(plugin: "Plugin") -> Any:
    from rollouthub.plugins.entry_points import load_plugin

    # A package that one of the hub's own commands lacks is named by `main` with the extra that installs it.
    return plugin.entry.load() if plugin.is_shipped else load_plugin(plugin)


def _built(name: str, found: Any) -> Any:
    """Turn what an entry point names into a click command of this name."""
    if isinstance(found, typer.Typer):
        group = get_group(found)
        group.name = name
        return group
    made = typer.Typer(add_completion=False, rich_markup_mode="rich")
    command = found if isinstance(found, FunctionCommand) else FunctionCommand(found)
    made.command(name, cls=command.kind)(command.function)
    return get_command(made)


def _name_the_nearest(slip: Any) -> None:
    """Rewrite the message of an unknown-option error so that it suggests the two most similar options."""
    nearest = getattr(slip, "possibilities", None)
    if nearest and hasattr(slip, "option_name"):
        # The parser found them by likeness, and the error would sort them by letters.
        slip.message = f"{slip.message}; did you mean {' or '.join(nearest[:2])}?"
        slip.possibilities = None
