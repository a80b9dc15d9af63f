"""The options of `hub serve agents`."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from rollouthub.cli.options import ConfigField
from rollouthub.cli.serve.served_options import PLACE, AddressesAsJson, PlaneOptions
from rollouthub.settings import Option, time_option

_BOUNDS = "Bounds"


class ServeAgentsOptions(PlaneOptions):
    """Options of `hub serve agents`: addresses, and limits for agents and episodes."""

    practice: Annotated[bool, Option(panel=PLACE)] = Field(
        default=False, description="Also serve a fixed URL for trying each environment, unscored."
    )
    practice_split: Annotated[str | None, Option(panel=PLACE)] = Field(
        default=None, description="The split that practice uses; by default the first one that is not served."
    )
    ttl: Annotated[float, time_option("--ttl", _BOUNDS)] = Field(
        default=3600.0, ge=1, description="Seconds after which an episode that was not ended is closed."
    )
    turn_timeout: Annotated[float, time_option("--turn-timeout", _BOUNDS)] = Field(
        default=600.0,
        gt=0,
        description="Seconds an agent may be silent where seats take turns; past that, it has left its seat.",
    )
    most_open: Annotated[int, Option("--max-open", panel=_BOUNDS)] = Field(
        default=1000, ge=1, description="Most episodes open at once."
    )
    rate: Annotated[float, Option(panel=_BOUNDS)] = Field(
        default=100.0, ge=0, description="Most requests per second of one agent, averaged over time; 0 is no limit."
    )
    config: ConfigField = None
    output: Annotated[Path | None, Option(short="-o")] = Field(
        default=None, description="The run's directory; runs/serve-TIME by default."
    )
    resume: bool = Field(
        default=False, description="Continue the run in -o; episodes that were open when it was killed are recorded."
    )
    as_json: AddressesAsJson = False
