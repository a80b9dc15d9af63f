"""Run with EasyR1's checkout first on the path: its data set over the hub's rows, with the pictures of their tasks."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from rollouthub.messages import digest_of
from rollouthub.trainers import easyr1
from rollouthub.trainers.stream import blocking_worker, rollout_worker
from tests.trainers.absent import absent
from tests.trainers.gallery import FRAME
from tests.trainers.seeing import GALLERY, same_pictures, seeing_processor


def main(folder: Path) -> None:
    processor = seeing_processor(import_module)
    place = folder / "frame.png"
    place.write_bytes(FRAME)
    opened = rollout_worker(environments=(GALLERY,), model="mock/solver", directory=folder / "t", set={"framed": True})
    with blocking_worker(opened) as worker:
        tasks = worker.tasks()
    rows = easyr1.prompt_rows(tasks, "gallery", "test", pictures={digest_of(FRAME): place})
    easyr1.write_prompts(rows, folder / "train.parquet")
    with absent("qwen_vl_utils"):  # its half for videos
        module: Any = import_module("verl.utils.dataset")
    data = module.RLHFDataset(
        str(folder / "train.parquet"), processor.tokenizer, processor, filter_overlong_prompts=False
    )
    assert len(data) == len(tasks) == 2
    for item in (data[0], data[1]):
        assert item["multi_modal_data"] == {"images": [str(place)]}
        # Its workers open the files again, and call the processor as its data set does.
        shown = [module.process_image(image, None, None) for image in item["multi_modal_data"]["images"]]
        made = processor.image_processor(shown, return_tensors="pt")
        same_pictures(processor, item["input_ids"].tolist(), made, [FRAME])
        assert item["position_ids"].shape[0] == 4, "time, height and width of each token, and its place"
    sys.stdout.write("all is as it should be\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
