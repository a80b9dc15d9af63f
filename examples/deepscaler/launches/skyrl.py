"""SkyRL: its trainer with the hub's generator in the place of SkyRL's (`entries/skyrl_train.py`)."""

from launches.plan import MICRO_BATCH_TOKENS, PROMPT_TOKENS, Launch, Plan, command, overrides, toml
from launches.script import EXAMPLE, PYTHON, beginning, prompts, ray_over


def launch(plan: Plan) -> Launch:
    """The launch of a stage with SkyRL."""
    entry = str(EXAMPLE / "entries" / "skyrl_train.py")
    train = command(entry, options=overrides(settings(plan)), before=f'ROLLOUTHUB_TRAINING="$PWD/play.toml" {PYTHON}')
    script = (
        beginning(plan, "SkyRL 0.3")
        + ray_over(plan)
        + prompts(plan, "skyrl", "train.jsonl", "validation.jsonl")
        + f'\n{train} "$@"\n'
    )
    made = plan.folder / "exports" / f"global_step_{plan.stage.steps}" / "policy"
    return Launch({"launch.sh": script, "play.toml": toml(plan.settings)}, made)


def settings(plan: Plan) -> dict[str, object]:
    """SkyRL's settings, as its dataclasses name them."""
    recipe, stage, machines = plan.recipe, plan.stage, plan.machines
    training, rollouts, validation = recipe.training, recipe.rollouts, recipe.validation
    algorithm, policy, engine = "trainer.algorithm", "trainer.policy", "generator.inference_engine"
    sampling = {"temperature": rollouts.temperature, "top_p": rollouts.top_p, "logprobs": 1}
    sampling = {**sampling, "max_generate_length": stage.max_sequence_tokens}
    alone = machines.gpus == 1
    return {
        "data.train_data": [str(plan.folder / "train.jsonl")],
        "data.val_data": [str(plan.folder / "validation.jsonl")],
        "environment.env_class": "rollouthub",
        f"{policy}.model.path": plan.policy,
        "trainer.ref.model.path": plan.policy,
        "trainer.strategy": "fsdp",
        "trainer.placement.colocate_all": True,
        "trainer.placement.policy_num_nodes": machines.nodes,
        "trainer.placement.policy_num_gpus_per_node": machines.per_node,
        "trainer.placement.ref_num_nodes": machines.nodes,
        "trainer.placement.ref_num_gpus_per_node": machines.per_node,
        f"{algorithm}.advantage_estimator": "grpo",
        f"{algorithm}.grpo_norm_by_std": recipe.advantages.normalize,
        f"{algorithm}.eps_clip_low": training.ratio_clip_min,
        f"{algorithm}.eps_clip_high": stage.ratio_clip_max,
        f"{algorithm}.loss_reduction": "token_mean" if training.token_level_loss else "sequence_mean",
        f"{algorithm}.use_kl_loss": stage.kl > 0,
        f"{algorithm}.kl_loss_coef": stage.kl,
        f"{algorithm}.kl_estimator_type": training.kl_form,
        f"{policy}.optimizer_config.lr": stage.learning_rate,
        f"{policy}.optimizer_config.adam_betas": list(training.betas),
        f"{policy}.optimizer_config.weight_decay": training.weight_decay,
        f"{policy}.optimizer_config.max_grad_norm": training.max_grad_norm,
        f"{policy}.optimizer_config.num_warmup_steps": training.warmup_steps * plan.updates,  # it counts updates
        f"{policy}.optimizer_config.offload_after_step": True,
        "trainer.bf16": training.dtype == "bfloat16",
        "trainer.gradient_checkpointing": True,
        "trainer.remove_microbatch_padding": True,
        "trainer.max_tokens_per_microbatch": MICRO_BATCH_TOKENS if not alone else plan.sequence_tokens,
        "trainer.logprobs_chunk_size": 1024,
        "trainer.train_batch_size": rollouts.prompts,
        "trainer.policy_mini_batch_size": plan.update_prompts,
        "trainer.update_epochs_per_batch": 1,
        "trainer.max_prompt_length": PROMPT_TOKENS,
        "trainer.seed": plan.seed,
        "generator.n_samples_per_prompt": rollouts.samples,
        "generator.max_turns": 1,
        "generator.batched": False,
        **{f"generator.sampling_params.{name}": value for name, value in sampling.items()},
        **{f"generator.eval_sampling_params.{name}": value for name, value in sampling.items()},
        "generator.eval_n_samples_per_prompt": validation.samples,
        f"{engine}.num_engines": machines.gpus,
        f"{engine}.tensor_parallel_size": 1,
        f"{engine}.gpu_memory_utilization": 0.6 if alone else 0.7,
        f"{engine}.max_num_batched_tokens": MICRO_BATCH_TOKENS,
        f"{engine}.engine_init_kwargs.max_model_len": plan.sequence_tokens,
        f"{engine}.enable_ray_prometheus_stats": False,
        "trainer.epochs": 100,  # the steps end it
        "trainer.max_training_steps": stage.steps,
        "trainer.eval_before_train": True,
        "trainer.eval_interval": validation.every,
        "trainer.eval_batch_size": 1024,
        "trainer.ckpt_interval": validation.every,
        "trainer.max_ckpts_to_keep": 2,
        "trainer.ckpt_path": str(plan.folder / "checkpoints"),
        "trainer.hf_save_interval": stage.steps,
        "trainer.export_path": str(plan.folder / "exports"),
        "trainer.log_path": str(plan.folder / "logs"),
        "trainer.resume_mode": "latest",
        "trainer.project_name": "deepscaler",
        "trainer.run_name": stage.name,
        "trainer.logger": "tensorboard",
    }
