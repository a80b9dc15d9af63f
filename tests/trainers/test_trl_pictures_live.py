"""Pictures of tasks and tools in TRL's own trainer, over a tiny model of Qwen2.5-VL's shape."""

from pathlib import Path
from typing import Any

import pytest

from rollouthub.models.credentials import Credentials
from rollouthub.trainers.trl import HubSpec
from tests.trainers.gallery import FRAME, QUESTION, WIDTHS, drawn
from tests.trainers.seeing import GALLERY, LOOK, same_pictures, seeing_processor
from tests.trainers.verl_set_up import System

pytestmark = [pytest.mark.live, pytest.mark.filterwarnings("ignore")]  # of what its modules import


def tiny_model(system: System, processor: Any) -> Any:
    """Random weights."""
    transformers, tokenizer = system("transformers"), processor.tokenizer
    config = transformers.Qwen2_5_VLConfig(
        text_config={
            "vocab_size": 512,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 3, 3]},
        },
        vision_config={
            "depth": 1,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_heads": 2,
            "out_hidden_size": 32,
            "fullatt_block_indexes": [0],
        },
        image_token_id=processor.image_token_id,
        video_token_id=processor.video_token_id,
        vision_start_token_id=tokenizer.convert_tokens_to_ids("<|vision_start|>"),
        vision_end_token_id=tokenizer.convert_tokens_to_ids("<|vision_end|>"),
        pad_token_id=tokenizer.pad_token_id,
    )
    return transformers.Qwen2_5_VLForConditionalGeneration(config)


def looking_trainer(trl: Any, batches: list[dict[str, Any]]) -> Any:
    """TRL's trainer, whose policy's words are given: it looks, and says how wide what it was shown last is."""

    class Looking(trl.GRPOTrainer):
        def _generate_single_turn(self, prompt_ids: Any, images: Any, *rest: Any, **more: Any) -> Any:
            tokenizer, said = self.processing_class.tokenizer, list[list[int]]()
            for shown in images:
                words = LOOK if len(shown) == 1 else f"It is {shown[-1].width}."
                said.append(tokenizer.encode(f"{words}<|im_end|>", add_special_tokens=False))
            return said, [[-0.5] * len(ids) for ids in said]

        def _generate_and_score_completions(self, inputs: Any) -> Any:
            made: Any = trl.GRPOTrainer._generate_and_score_completions(self, inputs)
            batches.append(made)
            return made

    return Looking


def test_grpo_learns_from_the_pictures_of_tasks_and_tools(system: System, tmp_path: Path) -> None:
    for name in ("torch", "jmespath"):
        system(name)
    trl, processor = system("trl"), seeing_processor(system)
    # A template of TRL's own that shows pictures and calls tools.
    template = (Path(str(trl.__file__)).parent / "chat_templates" / "qwen3_vl.jinja").read_text()
    processor.chat_template = processor.tokenizer.chat_template = template
    arguments = trl.GRPOConfig(
        output_dir=str(tmp_path / "trl"),
        per_device_train_batch_size=2,
        num_generations=2,
        max_steps=2,
        logging_steps=1,
        max_completion_length=400,
        shuffle_dataset=False,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        disable_tqdm=True,
    )
    batches = list[dict[str, Any]]()
    with HubSpec([GALLERY], credentials=Credentials({}), set={"framed": True}) as spec:
        data = spec.train_dataset
        assert [part["type"] for part in data[0]["prompt"][0]["content"]] == ["image", "text"]
        assert data[0]["prompt"][0]["content"][1]["text"] == QUESTION
        trainer = looking_trainer(trl, batches)(
            model=tiny_model(system, processor),
            args=arguments,
            train_dataset=data,
            environment_factory=spec.environment_factory,
            reward_funcs=spec.reward_funcs,
            processing_class=processor,
        )
        trainer.train()
    assert [step["reward"] for step in trainer.state.log_history if "reward" in step] == [1.0, 1.0]
    assert len(batches) == len(WIDTHS)
    for batch, width in zip(batches, WIDTHS, strict=True):
        raws = [FRAME, drawn(width)] * 2
        ids = system("torch").cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
        same_pictures(processor, ids.reshape(-1).tolist(), batch, raws)
