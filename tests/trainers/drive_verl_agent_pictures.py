"""Run with verl-agent's checkout first on the path: a picture of the hub in the batches of its rollout loop."""

import sys
from collections.abc import Callable
from importlib import import_module
from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import Any

from PIL import Image

from rollouthub.trainers.verl_agent import make_envs
from tests.trainers.gallery import FRAME, WIDTHS, drawn
from tests.trainers.seeing import GALLERY, LOOK, same_pictures, seeing_processor


def main(folder: Path) -> None:
    numpy: Any = import_module("numpy")
    omegaconf: Any = import_module("omegaconf")
    loop: Any = import_module("agent_system.multi_turn_rollout")
    utils: Any = import_module("agent_system.multi_turn_rollout.utils")
    system: Callable[[str], ModuleType] = import_module
    processor = seeing_processor(system)
    # Its own positions look for the class that reads with torchvision.
    config = omegaconf.OmegaConf.create(
        {
            "data": {"max_prompt_length": 1024, "truncation": "error", "train_batch_size": 2, "val_batch_size": 1},
            "env": {"env_name": f"rollouthub/{GALLERY}", "max_steps": 3, "history_length": 2, "rollout": {"n": 1}},
        }
    )
    config.env.rollouthub = {"set": {"framed": True}, "training": {"directory": str(folder / "runs")}}
    torch: Any = import_module("torch")
    asked = import_module("verl").DataProto.from_dict(
        tensors={"input_ids": torch.zeros((2, 1), dtype=torch.int64)},
        non_tensors={
            "raw_prompt": numpy.array([[{"role": "user", "content": ""}]] * 2, dtype=object),
            "data_source": numpy.array(["gallery"] * 2, dtype=object),
        },
    )
    collector = loop.TrajectoryCollector(config=config, tokenizer=processor.tokenizer, processor=processor)
    envs, val_envs = make_envs(config)
    with envs, val_envs:
        first, _ = envs.reset()
        before = collector.preprocess_batch(gen_batch=asked, obs=first)
        second, *_ = envs.step([LOOK] * 2)
        after = collector.preprocess_batch(gen_batch=asked, obs=second)
        _, rewards, _, _ = envs.step([f"It is {width}." for width in WIDTHS])
        kept = {path.read_bytes() for path in folder.rglob("media/*")}
    assert rewards.tolist() == [1.0, 1.0]
    assert kept == {FRAME, *map(drawn, WIDTHS)}
    assert first["anchor"][0] == first["anchor"][1], "both begin at one place"
    assert second["anchor"][0] != second["anchor"][1], "and see other pictures then"
    for batch, shown in ((before, [FRAME, FRAME]), (after, [drawn(width) for width in WIDTHS])):
        for place, raw in enumerate(shown):
            # verl-agent enlarges what is small before its processor sees it.
            enlarged = BytesIO()
            utils.process_image(numpy.asarray(Image.open(BytesIO(raw)))).save(enlarged, "PNG")
            ids = batch.batch["input_ids"][place].tolist()
            same_pictures(processor, ids, batch.non_tensor_batch["multi_modal_inputs"][place], [enlarged.getvalue()])
    sys.stdout.write("all is as it should be\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
