"""The files of a model in a folder, named by digest."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from rollouthub.errors import ConfigError
from rollouthub.text import plain_name
from rollouthub_registry.receipt.canonical import json_digest

TOKENIZER = "tokenizer.json"
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf")
_CONFIG = ("config.json", "adapter_config.json")
_MOST_FILES = 10_000
_CHUNK = 2**20


@dataclass(frozen=True)
class ModelFolder:
    """A folder with a model's files."""

    path: Path
    files: dict[str, str]
    """Name → digest of each file of weights, and of the configuration."""
    tokenizer: str | None
    """Digest of `tokenizer.json`; None where there is none."""

    @property
    def weights(self) -> str:
        """Digest over the names and digests of the files."""
        return json_digest(self.files)


def read_model_folder(folder: Path) -> ModelFolder:
    """Read the digests of a model's files; of a large model this takes as long as its disk needs.

    Raises:
        ConfigError: there is no such folder, or it holds no weights.
    """
    try:
        names = sorted(path.name for path in folder.iterdir() if path.is_file())
        chosen = [name for name in names if name.endswith(_WEIGHTS) or name in _CONFIG]
        if not any(name.endswith(_WEIGHTS) for name in chosen) or len(chosen) > _MOST_FILES:
            raise ConfigError(
                f"{plain_name(str(folder))} holds no weights ({', '.join(_WEIGHTS)}); name the folder of a model"
            )
        files = {name: _digest(folder / name) for name in chosen}
        return ModelFolder(folder, files, _digest(folder / TOKENIZER) if TOKENIZER in names else None)
    except OSError as error:
        raise ConfigError(
            f"the model in {plain_name(str(folder))} cannot be read: {error.strerror or error}"
        ) from error


def _digest(file: Path) -> str:
    found = hashlib.sha256()
    with file.open("rb") as source:
        while chunk := source.read(_CHUNK):
            found.update(chunk)
    return f"sha256:{found.hexdigest()}"
