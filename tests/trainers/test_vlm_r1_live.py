"""VLM-R1's own module over the hub's rows: the pictures of tasks as its trainer gives them to a processor."""

import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from rollouthub.messages import digest_of
from rollouthub.trainers.stream import blocking_worker, rollout_worker
from rollouthub.trainers.vlm_r1 import write_jsonl
from tests.trainers.absent import absent
from tests.trainers.gallery import FRAME
from tests.trainers.seeing import GALLERY, same_pictures, seeing_processor
from tests.trainers.verl_set_up import System

pytestmark = [pytest.mark.live, pytest.mark.filterwarnings("ignore")]  # of what its modules import


def test_its_module_makes_inputs_of_a_rows_picture(
    checkout: Callable[..., Path], system: System, tmp_path: Path
) -> None:
    checkout("vlm-r1", "src/open-r1-multimodal/src")
    processor = seeing_processor(system)
    for module in ("trl.data_utils", "transformers.models.qwen2_vl", "transformers.models.qwen2_5_vl"):
        system(module)
    with absent("torchvision", "timm"):  # of its other models
        try:
            theirs: Any = import_module("open_r1.vlm_modules.qwen_module")
        except ImportError as error:
            pytest.skip(f"open_r1.vlm_modules cannot be imported ({error})")
    place = tmp_path / "frame.png"
    place.write_bytes(FRAME)
    opened = rollout_worker(
        environments=(GALLERY,), model="mock/solver", directory=tmp_path / "tasks", set={"framed": True}
    )
    with blocking_worker(opened) as worker:
        tasks = worker.tasks()
    pictures = {digest_of(FRAME): place}
    write_jsonl(tmp_path / "train.jsonl", tasks, "gallery", "test", image_folder=tmp_path, pictures=pictures)
    rows = [json.loads(line) for line in (tmp_path / "train.jsonl").read_text().splitlines()]
    # As its launcher makes a prompt of a row, and its trainer opens the picture.
    question = rows[0]["conversations"][0]["value"].replace("<image>", "")
    content = [{"type": "image", "text": None}, {"type": "text", "text": question}]
    module = theirs.Qwen2VLModule()
    texts = module.prepare_prompt(processor, [{"prompt": [{"role": "user", "content": content}]}])
    shown = Image.open(tmp_path / rows[0]["image"])
    made, _ = module.prepare_model_inputs(processor, texts, [shown])
    same_pictures(processor, made["input_ids"][0].tolist(), made, [FRAME])
