"""What the command line says of an option that a command does not have."""

from typing import Any

from typer.core import TyperGroup


class PatientGroup(TyperGroup):
    """All commands: an unknown option is met with those most like it, the nearest first."""

    def make_context(self, *args: Any, **more: Any) -> Any:
        """Read the command line as far as it is this group's."""
        try:
            return super().make_context(*args, **more)
        except Exception as slip:
            _name_the_nearest(slip)
            raise

    def invoke(self, ctx: Any) -> Any:
        """Read the rest of it, and do what it says."""
        try:
            return super().invoke(ctx)
        except Exception as slip:
            _name_the_nearest(slip)
            raise


class AllCommands(PatientGroup):
    """The command line as a whole, whose help is one screen."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write it."""
        from rollouthub.cli.overview import overview

        for line in overview(f"{ctx.command_path} COMMAND [OPTIONS]"):
            formatter.write(f"{line}\n")


def _name_the_nearest(slip: Any) -> None:
    """Say it in the words the hub has for slips; only the error of an unknown option has both fields."""
    nearest = getattr(slip, "possibilities", None)
    if nearest and hasattr(slip, "option_name"):
        # The parser found them by likeness, and the error would sort them by letters.
        slip.message = f"{slip.message}; did you mean {' or '.join(nearest[:2])}?"
        slip.possibilities = None
