"""The base of every model that crosses a boundary: immutable, strict about its fields."""

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """A value that crosses disk, wire or process: frozen, unknown fields refused, no NaN or infinity in JSON."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings", ser_json_bytes="base64")
