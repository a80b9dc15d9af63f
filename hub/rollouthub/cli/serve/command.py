"""The group of `hub serve` commands. A word that is none of its commands is taken as an environment to serve."""

from typing import Any

import typer

from rollouthub.cli.command_group import LazyGroup
from rollouthub.errors import UsageError

_USUAL = "agents"


class ServeFamily(LazyGroup):
    """The group `hub serve`; `hub serve NAME` means `hub serve agents NAME`."""

    entry_group = "rollouthub.commands.serve"

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the line; if its first word is none of the group's commands, insert `agents` before it."""
        if not args and not ctx.resilient_parsing:
            raise UsageError(
                "what is to be served? name environments (hub serve arithmetic), or see hub serve --help for the rest"
            )
        if args and args[0] not in ctx.help_option_names and args[0] not in self.commands:
            args = [_USUAL, *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Complete the group's commands and the arguments of `hub serve agents`."""
        agents = self.commands[_USUAL]
        with agents.make_context(_USUAL, [], parent=ctx, resilient_parsing=True) as below:
            if incomplete.startswith("-"):
                return agents.shell_complete(below, incomplete)
            environments = agents.get_params(below)[0].shell_complete(below, incomplete)
        return [*super().shell_complete(ctx, incomplete), *environments]


serve = typer.Typer(
    cls=ServeFamily,
    help="Serve environments, models, rewards or a registry. `hub serve ENV` is short for `hub serve agents ENV`.",
)


@serve.callback()
def _serve() -> None:  # pyright: ignore[reportUnusedFunction]  # typer's
    pass
