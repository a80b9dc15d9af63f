"""The pictures that a rollout showed its policy, read from the run's directory."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rollouthub.errors import ConfigError
from rollouthub.export import TrainingRow
from rollouthub.messages import Media, media_of
from rollouthub.rollout import Rollout
from rollouthub.store.media import read_media
from rollouthub.trainers.pictures.prompt_pictures import PromptPictures


def shows_media(rollout: Rollout) -> bool:
    """Whether the rollout showed its policy pictures or other media."""
    return any(media_of(turn.messages) for turn in rollout.turns)


def no_pictures(rollouts: Iterable[Rollout], instead: str = "leave such rollouts out") -> None:
    """Refuse rollouts with pictures, for formats whose rows hold token ids only.

    Raises:
        ConfigError: a rollout shows pictures; `instead` is the advice in the message.
    """
    shown = next((each.rollout_id for each in rollouts if shows_media(each)), None)
    if shown is not None:
        raise ConfigError(f"rollout {shown} shows pictures, and this way takes ids alone; {instead}")


def shown_bytes(rollout: Rollout, turn: int, directory: Path) -> list[bytes]:
    """The bytes of the media in a turn's conversation, in order, read from the run's directory.

    Raises:
        StoreError, UnknownNameError: the bytes are not in the run's directory, or were altered.
    """
    shown: list[Media] = []
    place: int | None = turn
    while place is not None:
        spoken = rollout.turns[place]
        shown, place = [*media_of(spoken.messages), *shown], spoken.parent_turn
    return [read_media(directory / "media", each.digest) for each in shown]


def has_pictures(shown: bool, pictures: PromptPictures | None) -> PromptPictures | None:
    """The processor, if pictures were shown; otherwise None.

    Raises:
        ConfigError: pictures were shown, and there is no processor.
    """
    if shown and pictures is None:
        raise ConfigError("a rollout shows pictures, and there is no processor for its rows; play a model that sees")
    return pictures if shown else None


def row_tensors(row: TrainingRow, directory: Path, pictures: PromptPictures | None) -> dict[str, Any]:
    """The model's image inputs for the pictures that a training row shows (see `PromptPictures.tensors`).

    It reads files and is slow and blocking: from an event loop, call it in a thread.

    Raises:
        ConfigError: the row shows pictures, and there is no processor.
        ModelError: a picture cannot be opened, or the processor refuses it.
        StoreError, UnknownNameError: the bytes are not in the run's directory, or were altered.
    """
    shown = shown_bytes(row.rollout, row.turns[-1], directory)
    sees = has_pictures(bool(shown), pictures)
    return {} if sees is None else sees.tensors(shown)
