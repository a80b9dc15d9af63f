"""`hub serve rewards`: serves verifiers and picture scorers over HTTP, to trainers that generate answers themselves."""

from pathlib import Path
from typing import Annotated

import typer
from pydantic import Field

from rollouthub.cli.options import ConfigField
from rollouthub.cli.serve.served_options import PLACE, AddressesAsJson, ListenOptions
from rollouthub.cli.settings_command import SettingsCommand, given_options, given_settings
from rollouthub.settings import Option, time_option

_PICTURES, _BOUNDS = "Pictures", "Bounds"


class ServeRewardsOptions(ListenOptions):
    """Options of `hub serve rewards`: addresses and limits."""

    port: Annotated[int, Option(panel=PLACE)] = Field(
        default=8712, ge=0, le=65535, description="Port to listen on; 0 picks a free one."
    )
    no_token: Annotated[bool, Option(panel=PLACE)] = Field(
        default=False, description="Accept requests without a token; on loopback only."
    )
    scorer: Annotated[str | None, Option(metavar="MODULE:FUNCTION", panel=_PICTURES)] = Field(
        default=None,
        description="The function that scores the pictures of /v1/images, of a module or of FILE.py. To try it "
        "without a model: plain_look of rollouthub.trainers.reward_server.plain_look.",
    )
    images: Annotated[Path | None, Option(panel=_PICTURES)] = Field(
        default=None, description="The folder of the pictures that requests may name."
    )
    image_requests: Annotated[int, Option(panel=_PICTURES)] = Field(
        default=1, ge=1, description="Most requests whose pictures are scored at once."
    )
    timeout: Annotated[float, time_option("--request-timeout", _BOUNDS)] = Field(
        default=170.0, ge=0.1, description="Most seconds for one request."
    )
    max_requests: Annotated[int, Option(panel=_BOUNDS)] = Field(
        default=64, ge=1, description="Most requests answered at once."
    )
    config: ConfigField = None
    as_json: AddressesAsJson = False


class ServeRewardsCommand(SettingsCommand):
    """`hub serve rewards`: takes the run settings that apply to verifiers."""

    options = ServeRewardsOptions
    taken = ("environments", "roles", "seed", "set", "concurrency", "in_process", "served", "wall", "trust")


@ServeRewardsCommand.of
def serve_rewards(ctx: typer.Context) -> None:
    """Score answers and pictures over HTTP.

    Answers are scored by the verifiers of environments, pictures by --scorer. Requests need the token in
    $ROLLOUTHUB_REWARD_TOKEN, or a new one, kept in a file that only you can read.

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

    options = given_options(ctx, ServeRewardsOptions)

    def announce(ready: RewardReady) -> None:
        if options.as_json:
            typer.echo(ready.model_dump_json())
            return
        what = ", ".join([*ready.environments, *([f"pictures by {ready.scorer}"] if ready.scorer else [])])
        token = "no token is asked for" if options.no_token else f"token: {ready.token_file or f'${TOKEN_VARIABLE}'}"
        typer.echo(f"rewards of {what} at {ready.url} (Ctrl-C stops it); {token}")

    with reward_token(is_open=options.no_token) as (token, file):
        order = RewardOrder(
            request=request_of(given_settings(ctx), options.config, None, resume=False),
            credentials=load_credentials(os.environ, Path.cwd()),
            token=token,
            token_file=file,
            host=options.host,
            port=options.port,
            seconds=options.timeout,
            most_requests=options.max_requests,
            scorer=options.scorer,
            images=options.images,
            image_requests=options.image_requests,
        )
        code = serve_to_the_end(partial(serve, order), announce)
    raise typer.Exit(code)
