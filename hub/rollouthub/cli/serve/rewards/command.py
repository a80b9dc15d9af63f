"""`hub serve rewards`: verifiers and picture scorers over HTTP, for trainers that generate by themselves."""

from pathlib import Path
from typing import Annotated

import typer

from rollouthub.cli.options import ConfigOption
from rollouthub.cli.settings_command import SettingsCommand, given_settings

_PLACE, _PICTURES, _BOUNDS = "Where", "Pictures", "Bounds"


class ServeRewardsCommand(SettingsCommand):
    """`hub serve rewards`: the settings that concern verifiers."""

    taken = ("environments", "roles", "seed", "set", "concurrency", "in_process", "served")


def serve_rewards(
    ctx: typer.Context,
    host: Annotated[str, typer.Option(help="Address to listen on.", rich_help_panel=_PLACE)] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 picks a free one.", rich_help_panel=_PLACE)
    ] = 8712,
    no_token: Annotated[
        bool,
        typer.Option("--no-token", help="Accept requests without a token; on loopback only.", rich_help_panel=_PLACE),
    ] = False,
    scorer: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:FUNCTION",
            help="Scores pictures at /v1/images; or FILE.py:FUNCTION. To try it without a model: plain_look of "
            "rollouthub.trainers.reward_server.plain_look.",
            rich_help_panel=_PICTURES,
        ),
    ] = None,
    images: Annotated[
        Path | None,
        typer.Option(help="The folder that requests may name pictures in.", rich_help_panel=_PICTURES),
    ] = None,
    image_requests: Annotated[
        int, typer.Option(min=1, help="Most requests whose pictures are scored at once.", rich_help_panel=_PICTURES)
    ] = 1,
    timeout: Annotated[
        float, typer.Option(min=0.1, help="Most seconds for one request.", rich_help_panel=_BOUNDS)
    ] = 170.0,
    max_requests: Annotated[
        int, typer.Option(min=1, help="Most requests answered at once.", rich_help_panel=_BOUNDS)
    ] = 64,
    config: ConfigOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the addresses it serves on as one line of JSON.")
    ] = False,
) -> None:
    """Score answers and pictures over HTTP.

    Answers are scored by the verifiers of environments, pictures by --scorer. Requests need
    the token in $ROLLOUTHUB_REWARD_TOKEN, or a new one, kept in a file that only you can read.

    Exit codes: 0 after SIGTERM, 1 a fault, 2 usage, 130 after Ctrl-C.
    """
    import os
    from functools import partial

    from rollouthub.cli.run.action import request_of
    from rollouthub.hosting.server.server_lifetime import serve_to_the_end
    from rollouthub.models.credentials import load_credentials
    from rollouthub.trainers.reward_server.open_reward_server import (
        TOKEN_VARIABLE,
        RewardOrder,
        RewardReady,
        reward_token,
    )
    from rollouthub.trainers.reward_server.open_reward_server import (
        serve_rewards as serve,
    )

    def announce(ready: RewardReady) -> None:
        if as_json:
            typer.echo(ready.model_dump_json())
            return
        what = ", ".join([*ready.environments, *([f"pictures by {ready.scorer}"] if ready.scorer else [])])
        token = "no token is asked for" if no_token else f"token: {ready.token_file or f'${TOKEN_VARIABLE}'}"
        typer.echo(f"rewards of {what} at {ready.url} (Ctrl-C stops it); {token}")

    with reward_token(is_open=no_token) as (token, file):
        order = RewardOrder(
            request=request_of(given_settings(ctx), config, None, resume=False),
            credentials=load_credentials(os.environ, Path.cwd()),
            token=token,
            token_file=file,
            host=host,
            port=port,
            seconds=timeout,
            most_requests=max_requests,
            scorer=scorer,
            images=images,
            image_requests=image_requests,
        )
        code = serve_to_the_end(partial(serve, order), announce)
    raise typer.Exit(code)
