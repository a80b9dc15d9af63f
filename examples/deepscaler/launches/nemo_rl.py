"""NeMo-RL: its own DeepScaleR configuration, with the hub in the place of NeMo Gym (`entries/nemo_rl_train.py`)."""

from launches.plan import Launch, Plan, command, flags, overrides, toml
from launches.script import EXAMPLE, PYTHON, beginning, prompts, ray_over

CONFIG = "examples/configs/recipes/llm/grpo-deepscaler-1.5b-8K.yaml"
"""The first stage's, of NeMo-RL's checkout; what differs between stages is set from the recipe."""


def launch(plan: Plan) -> Launch:
    """The launch of a stage with NeMo-RL."""
    entry = str(EXAMPLE / "entries" / "nemo_rl_train.py")
    train = command(entry, "--config", CONFIG, options=overrides(settings(plan)), before=f'cd "$NEMO_RL"\n{PYTHON}')
    step = plan.folder / "checkpoints" / f"step_{plan.stage.steps}"
    paths = {
        "config": str(step / "config.yaml"),
        "dcp-ckpt-path": str(step / "policy" / "weights"),
        "hf-ckpt-path": str(step / "hf"),
    }
    convert = command("examples/converters/convert_dcp_to_hf.py", options=flags(paths), before=PYTHON)
    script = (
        beginning(plan, "NeMo-RL")
        + ': "${NEMO_RL:?set it to a checkout of NeMo-RL}"\n'
        + ray_over(plan)
        + prompts(plan, "nemo_rl", "train.jsonl", "validation.jsonl")
        + f'\n{train} "$@"\n\n{convert}\n'
    )
    return Launch({"launch.sh": script, "play.toml": toml(plan.settings)}, step / "hf")


def settings(plan: Plan) -> dict[str, object]:
    """NeMo-RL's settings, as hydra takes them; `+` adds what its configuration leaves to the reader."""
    recipe, stage, machines = plan.recipe, plan.stage, plan.machines
    training, rollouts, validation = recipe.training, recipe.rollouts, recipe.validation
    parallel = 2 if stage.max_sequence_tokens > 8192 and machines.gpus > 1 else 1  # as NeMo-RL's 16K and 24K have it
    warmup, whole = training.warmup_steps, 10**10
    return {
        "grpo.num_prompts_per_step": rollouts.prompts,
        "grpo.num_generations_per_prompt": rollouts.samples,
        "grpo.max_num_steps": stage.steps,
        "grpo.max_num_epochs": 100,  # the steps end it
        "grpo.normalize_rewards": recipe.advantages.normalize,
        "grpo.use_leave_one_out_baseline": recipe.advantages.baseline == "leave_one_out",
        "grpo.seed": plan.seed,
        "grpo.val_period": validation.every,
        "grpo.val_at_start": True,
        "grpo.val_at_end": True,
        "grpo.max_val_samples": None,
        "grpo.val_batch_size": None,
        "loss_fn.reference_policy_kl_penalty": stage.kl,
        "loss_fn.reference_policy_kl_type": training.kl_form,
        "loss_fn.ratio_clip_min": training.ratio_clip_min,
        "loss_fn.ratio_clip_max": stage.ratio_clip_max,
        "loss_fn.token_level_loss": training.token_level_loss,
        "policy.model_name": plan.policy,
        "policy.precision": training.dtype,
        "policy.train_global_batch_size": training.global_batch,
        "policy.train_micro_batch_size": training.micro_batch,
        "policy.logprob_batch_size": 1,
        "policy.max_total_sequence_length": plan.sequence_tokens,
        "policy.max_grad_norm": training.max_grad_norm,
        "policy.dtensor_cfg.tensor_parallel_size": parallel,
        "policy.dtensor_cfg.cpu_offload": machines.gpus == 1,
        "policy.dtensor_cfg.activation_checkpointing": True,
        "policy.optimizer.kwargs.lr": stage.learning_rate,
        "policy.optimizer.kwargs.weight_decay": training.weight_decay,
        "policy.optimizer.kwargs.betas": list(training.betas),
        "policy.scheduler": [
            {
                "name": "torch.optim.lr_scheduler.LinearLR",
                "kwargs": {"start_factor": training.warmup_from, "end_factor": 1.0, "total_iters": warmup},
            },
            {"name": "torch.optim.lr_scheduler.ConstantLR", "kwargs": {"factor": 1.0, "total_iters": whole}},
            {"milestones": [warmup]},
        ],
        "policy.generation.temperature": rollouts.temperature,
        "policy.generation.top_p": rollouts.top_p,
        "policy.generation.max_new_tokens": stage.max_sequence_tokens,
        "policy.generation.vllm_cfg.async_engine": True,
        "+policy.generation.vllm_cfg.expose_http_server": True,
        "policy.generation.vllm_cfg.gpu_memory_utilization": 0.6 if machines.gpus == 1 else 0.7,
        "data.train.dataset_name": "NemoGymDataset",
        "+data.train.data_path": str(plan.folder / "train.jsonl"),
        "~data.train.split_validation_size": None,
        "~data.train.seed": None,
        "data.validation.dataset_name": "NemoGymDataset",
        "+data.validation.data_path": str(plan.folder / "validation.jsonl"),
        "data.validation.repeat": validation.samples,
        "data.default.prompt_file": None,
        "data.default.processor": "nemo_gym_data_processor",
        "data.default.env_name": "nemo_gym",
        "+env.should_use_nemo_gym": True,
        "+env.should_mask_flagged_samples": True,
        "+env.nemo_gym": {"rollouthub": plan.settings},
        "cluster.gpus_per_node": machines.per_node,
        "cluster.num_nodes": machines.nodes,
        "checkpointing.checkpoint_dir": str(plan.folder / "checkpoints"),
        "checkpointing.save_period": validation.every,
        "checkpointing.keep_top_k": 2,
        "logger.log_dir": str(plan.folder / "logs"),
        "logger.tensorboard_enabled": True,
    }
