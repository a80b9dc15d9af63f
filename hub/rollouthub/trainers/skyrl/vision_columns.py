"""Pictures for SkyRL's trainer: two columns, aligned with the rows of `generator_output`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from anyio import to_thread

from rollouthub.export import RefusalReason
from rollouthub.rollout import Rollout
from rollouthub.trainers.pictures.prompt_pictures import PromptPictures
from rollouthub.trainers.pictures.shown_pictures import row_tensors
from rollouthub.trainers.skyrl.output import Shape, rows_of

COLUMNS = ("pixel_values", "image_grid_thw")


async def vision_columns(
    rollouts: Sequence[Rollout], shape: Shape, directory: Path, pictures: PromptPictures | None
) -> dict[str, Any]:
    """`pixel_values` and `image_grid_thw` of each row; None for both columns if no row shows a picture.

    SkyRL needs a tensor in every row, so a row without pictures, such as a masked row, gets an empty one.

    Raises:
        ConfigError: a row shows pictures, and there is no processor.
        ModelError: a picture cannot be opened, or the processor refuses it.
        StoreError, UnknownNameError: a picture's bytes are not in the run's directory, or were altered.
    """
    found: list[dict[str, Any]] = []
    for rollout in rollouts:
        made = rows_of(rollout, shape)
        if isinstance(made, RefusalReason):
            found.append({})
        else:
            found += [await to_thread.run_sync(row_tensors, row, directory, pictures) for row in made]
    example = next((tensors for tensors in found if tensors), None)
    if example is None:
        return dict.fromkeys(COLUMNS)
    return {name: [tensors.get(name, example[name][:0]) for tensors in found] for name in COLUMNS}
