"""veRL: `main_ppo` with its V1 trainer; the hub's manager plays whole groups over veRL's own engines."""

from launches.plan import MICRO_BATCH_TOKENS, PROMPT_TOKENS, Launch, Plan, command, overrides, toml
from launches.script import PYTHON, beginning, prompts, ray_over

KL_FORMS = {"k1": "kl", "k2": "mse", "k3": "low_var_kl"}
AGENTS = """\
- name: rollouthub
  _target_: rollouthub.trainers.verl.HubAgentLoop
  run: {folder}/play.toml
"""


def launch(plan: Plan) -> Launch:
    """The launch of a stage with veRL."""
    checkpoints = plan.folder / "checkpoints"
    train = command("-m", "verl.trainer.main_ppo", options=overrides(settings(plan)), before=PYTHON)
    script = (
        beginning(plan, "veRL 0.9")
        + ray_over(plan)
        + prompts(plan, "verl", "train.parquet", "validation.parquet")
        + f'\n{train} "$@"\n'
    )
    files = {"launch.sh": script, "agents.yaml": AGENTS.format(folder=plan.folder), "play.toml": toml(plan.settings)}
    return Launch(files, checkpoints / f"global_step_{plan.stage.steps}" / "actor" / "huggingface")


def settings(plan: Plan) -> dict[str, object]:
    """veRL's settings, as hydra takes them."""
    recipe, stage, machines = plan.recipe, plan.stage, plan.machines
    training, rollouts, validation = recipe.training, recipe.rollouts, recipe.validation
    alone = machines.gpus == 1  # weights and optimizer wait in the machine's memory while vLLM generates
    actor, rollout = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
    return {
        "algorithm.adv_estimator": "grpo",
        "critic.enable": False,
        "algorithm.norm_adv_by_std_in_grpo": recipe.advantages.normalize,
        "data.train_files": str(plan.folder / "train.parquet"),
        "data.val_files": str(plan.folder / "validation.parquet"),
        "data.train_batch_size": rollouts.prompts,
        "data.max_prompt_length": PROMPT_TOKENS,
        "data.max_response_length": stage.max_sequence_tokens,
        "data.seed": plan.seed,
        "actor_rollout_ref.model.path": plan.policy,
        "actor_rollout_ref.model.use_remove_padding": True,
        "actor_rollout_ref.model.enable_gradient_checkpointing": True,
        "actor_rollout_ref.model.use_fused_kernels": True,
        f"{actor}.ppo_mini_batch_size": plan.update_prompts,
        f"{actor}.use_dynamic_bsz": True,
        f"{actor}.ppo_max_token_len_per_gpu": MICRO_BATCH_TOKENS,
        f"{actor}.clip_ratio_low": training.ratio_clip_min,
        f"{actor}.clip_ratio_high": stage.ratio_clip_max,
        f"{actor}.clip_ratio_c": 1000.0,  # no second clip, as in NeMo-RL; veRL's own is 3
        f"{actor}.loss_agg_mode": "token-mean" if training.token_level_loss else "seq-mean-token-mean",
        f"{actor}.use_kl_loss": stage.kl > 0,
        f"{actor}.kl_loss_coef": stage.kl,
        f"{actor}.kl_loss_type": KL_FORMS[training.kl_form],
        f"{actor}.entropy_coeff": 0,
        f"{actor}.grad_clip": training.max_grad_norm,
        f"{actor}.optim.lr": stage.learning_rate,
        f"{actor}.optim.weight_decay": training.weight_decay,
        f"{actor}.optim.betas": list(training.betas),
        f"{actor}.optim.lr_warmup_steps": training.warmup_steps,
        f"{actor}.fsdp_config.dtype": training.dtype,
        f"{actor}.fsdp_config.param_offload": alone,
        f"{actor}.fsdp_config.optimizer_offload": alone,
        "actor_rollout_ref.ref.fsdp_config.param_offload": alone,
        f"{actor}.checkpoint.save_contents": ["model", "optimizer", "extra", "hf_model"],
        f"{rollout}.name": "vllm",
        f"{rollout}.n": rollouts.samples,
        f"{rollout}.temperature": rollouts.temperature,
        f"{rollout}.top_p": rollouts.top_p,
        f"{rollout}.tensor_model_parallel_size": 1,
        f"{rollout}.gpu_memory_utilization": 0.6 if alone else 0.7,
        f"{rollout}.max_model_len": plan.sequence_tokens,
        f"{rollout}.max_num_batched_tokens": MICRO_BATCH_TOKENS,
        f"{rollout}.calculate_log_probs": True,
        f"{rollout}.val_kwargs.n": validation.samples,
        f"{rollout}.val_kwargs.do_sample": True,
        f"{rollout}.val_kwargs.temperature": rollouts.temperature,
        f"{rollout}.val_kwargs.top_p": rollouts.top_p,
        f"+{rollout}.agent.agent_loop_manager_class": "rollouthub.trainers.verl.HubAgentLoopManagerTQ",
        f"{rollout}.agent.agent_loop_config_path": str(plan.folder / "agents.yaml"),
        f"{rollout}.agent.default_agent_loop": "rollouthub",
        "trainer.v1.trainer_mode": "sync",
        "trainer.v1.sampler.sync_refill_failed_groups": True,
        "trainer.nnodes": machines.nodes,
        "trainer.n_gpus_per_node": machines.per_node,
        "trainer.total_epochs": 100,  # the steps end it
        "trainer.total_training_steps": stage.steps,
        "trainer.val_before_train": True,
        "trainer.test_freq": validation.every,
        "trainer.save_freq": validation.every,
        "trainer.max_actor_ckpt_to_keep": 2,
        "trainer.default_local_dir": str(plan.folder / "checkpoints"),
        "trainer.resume_mode": "auto",
        "trainer.project_name": "deepscaler",
        "trainer.experiment_name": stage.name,
        "trainer.logger": ["console", "tensorboard"],
    }
