"""`[tasks]`: the source of each split's rows, pinned so that the rows stay the same."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from rollouthub.plugins.manifest.value_forms import Sha256, Url, exactly_one, only_with
from rollouthub.values import Frozen


class TaskSource(Frozen, defer_build=True):
    """`[tasks.SPLIT]`: the source of one split's rows; exactly one of `file`, `url` and `hf`."""

    file: str | None = Field(default=None, min_length=1)
    """A JSONL, JSON or Parquet file beside env.toml."""
    url: Url | None = None
    """Address of a JSONL, JSON or Parquet file; it is downloaded once, and refused where its digest differs from
    `sha256`.
    """
    sha256: Sha256 | None = None
    """With `file` or `url`: SHA-256 digest of the file's bytes, in hex; required with `url`."""
    bytes: int | None = Field(default=None, ge=0)
    """With `url`: the size of the file, which `hub list --available` tells before it is fetched."""
    rows: int | None = Field(default=None, ge=0)
    """With `url`: the number of its rows."""
    hf: Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?$")] | None = None
    """The name of a Hugging Face data set."""
    config: str | None = Field(default=None, min_length=1)
    """With `hf`: the configuration of the data set."""
    split: str | None = Field(default=None, min_length=1)
    """With `hf`: the data set's own name for this split, where it differs."""
    revision: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")] | None = None
    """With `hf`: the commit of the data set to read."""

    @model_validator(mode="after")
    def _holds(self) -> "TaskSource":
        exactly_one(self, ("file", "url", "hf"))
        only_with(self, "hf", ("config", "split", "revision"))
        only_with(self, "url", ("bytes", "rows"))
        if self.sha256 is not None and self.hf is not None:
            raise ValueError("`sha256` is for a `file` or a `url`; a data set is pinned by its `revision`")
        if self.url is not None and self.sha256 is None:
            raise ValueError("`url` needs the `sha256` of the file, so that the file cannot be replaced by other tasks")
        return self

    @property
    def data(self) -> str:
        """The text that names a `hf` data set to `rollouthub.authoring.rows`."""
        assert self.hf is not None
        config = "" if self.config is None else f":{self.config}"
        return f"hf:{self.hf}{config}{'' if self.revision is None else f'@{self.revision}'}"


def from_text(value: Any) -> Any:
    """A section of a split; a plain string stands for its `file`."""
    return {"file": value} if isinstance(value, str) else value


Split = Annotated[str, Field(pattern=r"^[\w.-]+$")]
Tasks = Mapping[Split, Annotated[TaskSource, BeforeValidator(from_text, json_schema_input_type=str | TaskSource)]]
"""Split → its source; a plain string stands for a `file`."""
