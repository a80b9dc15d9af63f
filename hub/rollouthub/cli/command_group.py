"""Command groups that import a command only when it is used, so that help and completion are fast."""

from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from rollouthub.cli.old_names import in_present_names

OURS = "rollouthub"


class LazyCommands(MutableMapping[str, Any]):
    """Commands by name, imported on first use: this package's by import path, the sibling packages' by entry point."""

    def __init__(self, places: Mapping[str, str], entry_group: str) -> None:
        self._places, self._entry_group = places, entry_group
        self._loaded: dict[str, Any] = {}
        self._entries: dict[str, Any] | None = None

    def __getitem__(self, name: str) -> Any:
        """Return the command, importing it on first use."""
        if name not in self._loaded:
            if name in self._places:
                place, *names = self._places[name].split(":")
                module = import_module(place)
                found = _built(name, *(getattr(module, each) for each in names))
            else:
                found = _built(name, self._registered()[name].load())
            self._loaded[name] = found
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        """Whether a command has this name; imports no command."""
        return name in self._loaded or name in self._places or name in self._registered()

    def __iter__(self) -> Iterator[str]:
        """Iterate over all names without importing a command."""
        return iter(dict.fromkeys((*self._places, *self._registered(), *self._loaded)))

    def __len__(self) -> int:
        """The number of commands."""
        return len(list(iter(self)))

    def __setitem__(self, name: str, command: Any) -> None:
        """Add a command object that is already built."""
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        """Always raise TypeError: a command cannot be removed."""
        raise TypeError(f"the command {name!r} cannot be taken away")

    def _registered(self) -> dict[str, Any]:
        """Entry points of the group by name; only those that this project's own distribution declares."""
        if self._entries is None:
            from importlib.metadata import entry_points

            found = entry_points(group=self._entry_group)
            self._entries = {entry.name: entry for entry in found if entry.dist and entry.dist.name == OURS}
        return self._entries


class LazyGroup(TyperGroup):
    """A command group that imports its commands on first use, and suggests similar options for an unknown one."""

    places: Mapping[str, str] = {}
    """Command name → `module:typer_app`, `module:function`, or `module:function:CommandClass`."""
    entry_group = ""
    """Entry-point group in which sibling packages register further commands of this group."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = LazyCommands(self.places, self.entry_group)

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

    places = {
        "run": "rollouthub.cli.run.command:run:RunCommand",
        "estimate": "rollouthub.cli.estimate.command:estimate:EstimateCommand",
        "play": "rollouthub.cli.play.command:play:PlayCommand",
        "connect": "rollouthub.cli.connect.command:connect:ConnectCommand",
        "serve": "rollouthub.cli.serve.command:serve",
        "runs": "rollouthub.cli.runs.command:runs",
        "show": "rollouthub.cli.show.command:show",
        "score": "rollouthub.cli.score.command:score:ScoreCommand",
        "export": "rollouthub.cli.export.command:export:ExportCommand",
        "compare": "rollouthub.cli.compare.command:compare:CompareCommand",
        "report": "rollouthub.cli.report.command:report",
        "list": "rollouthub.cli.list.command:list_environments",
        "bench": "rollouthub.cli.bench.command:bench:BenchCommand",
        "doctor": "rollouthub.cli.doctor.command:doctor:DoctorCommand",
        "import": "rollouthub.cli.import_.command:imports",
        "live": "rollouthub.cli.live.command:live",
        "model": "rollouthub.cli.model.command:model",
    }
    entry_group = "rollouthub.commands"

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command by its current or an earlier name."""
        return super().resolve_command(ctx, in_present_names(args))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help text."""
        from rollouthub.cli.overview import overview

        for line in overview(f"{ctx.command_path} COMMAND [OPTIONS]"):
            formatter.write(f"{line}\n")


def _built(name: str, found: Any, of: type[TyperCommand] = TyperCommand) -> Any:
    """Turn a function or a Typer application into a click command of this name."""
    if isinstance(found, typer.Typer):
        group = get_group(found)
        group.name = name
        return group
    made = typer.Typer(add_completion=False, rich_markup_mode="rich")
    made.command(name, cls=of)(found)
    return get_command(made)


def _name_the_nearest(slip: Any) -> None:
    """Rewrite the message of an unknown-option error so that it suggests the two most similar options."""
    nearest = getattr(slip, "possibilities", None)
    if nearest and hasattr(slip, "option_name"):
        # The parser found them by likeness, and the error would sort them by letters.
        slip.message = f"{slip.message}; did you mean {' or '.join(nearest[:2])}?"
        slip.possibilities = None
