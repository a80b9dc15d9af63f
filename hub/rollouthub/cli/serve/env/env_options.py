"""The options of `hub serve env`."""

from typing import Annotated

from pydantic import Field

from rollouthub.cli.serve.served_options import AddressesAsJson, PlaneOptions
from rollouthub.settings import time_option


class ServeEnvOptions(PlaneOptions):
    """Options of `hub serve env`: addresses, and how long episodes may last."""

    ttl: Annotated[float, time_option("--ttl")] = Field(
        default=7200.0, ge=1, description="Seconds after which an episode is closed."
    )
    as_json: AddressesAsJson = False
    from_stdin: bool = Field(
        default=False, description="Read the request from stdin and stop when stdin ends; the hub uses this."
    )
