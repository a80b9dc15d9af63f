"""TRL: `GRPOTrainer` (`entries/trl_train.py`). On one GPU TRL generates and the hub scores; else the hub plays."""

from launches.plan import GPUS_PER_NODE, Expanded, Launch, Plan, command, flags, toml
from launches.script import EXAMPLE, PYTHON, beginning, servers

PORT = 8000


def launch(plan: Plan) -> Launch:
    """The launch of a stage with TRL."""
    entry = str(EXAMPLE / "entries" / "trl_train.py")
    learners = _learners(plan)
    options = [*flags(accelerate(plan)), entry, *flags(settings(plan))]
    before = ""
    if plan.machines.gpus > 1 and plan.machines.nodes == 1:
        before = "CUDA_VISIBLE_DEVICES=" + ",".join(map(str, range(learners, GPUS_PER_NODE)))
    start = command("-m", "accelerate.commands.launch", options=options, before=f"{before} {PYTHON}".strip())
    script = beginning(plan, "TRL 1.16")
    if plan.machines.gpus > 1:
        script += servers(plan, plan.machines.gpus - learners)
    if plan.machines.nodes > 1:
        first = plan.machines.nodes - learners // GPUS_PER_NODE
        script += (
            f"\nrank=$((node - {first}))\n"
            ': "${LEARNER:=$(scontrol show hostnames "${SLURM_JOB_NODELIST:?set LEARNER to the address of machine '
            f'{first}}}" | sed -n {first + 1}p)}}"\nlearner=$LEARNER\n'
        )
    script += f'\n{start} "$@"\n'
    made = plan.folder / "checkpoints" / f"checkpoint-{plan.stage.steps * plan.updates}"
    return Launch({"launch.sh": script, "play.toml": toml(plan.settings)}, made)


def _learners(plan: Plan) -> int:
    """GPUs that learn: half of them; a whole number of rows of an update falls to each."""
    return max(1, plan.machines.gpus // 2)


def accelerate(plan: Plan) -> dict[str, object]:
    """The options of `accelerate launch`."""
    learners = _learners(plan)
    several = learners > 1
    machines = max(1, learners // GPUS_PER_NODE)
    found: dict[str, object] = {
        "num_processes": str(learners),
        "num_machines": str(machines),
        "mixed_precision": "bf16" if plan.recipe.training.dtype == "bfloat16" else "no",
        "dynamo_backend": "no",
    }
    if several:
        found |= {
            "use_fsdp": True,
            "fsdp_version": "2",
            "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
            "fsdp_reshard_after_forward": "true",
            "fsdp_state_dict_type": "FULL_STATE_DICT",
            "fsdp_cpu_ram_efficient_loading": "true",
        }
    if machines > 1:
        found |= {
            "machine_rank": Expanded("$rank"),
            "main_process_ip": Expanded("$learner"),
            "main_process_port": "29500",
        }
    return found


def settings(plan: Plan) -> dict[str, object]:
    """The options of `entries/trl_train.py`: TRL's `GRPOConfig`, and what to play."""
    recipe, stage = plan.recipe, plan.stage
    training, rollouts, validation = recipe.training, recipe.rollouts, recipe.validation
    alone = plan.machines.gpus == 1
    learners, data = _learners(plan), plan.data
    found: dict[str, object] = {
        "policy": plan.policy,
        "play": str(plan.folder / "play.toml"),
        "train_split": data.train_split,
        "validation_split": data.validation_split,
        "output_dir": str(plan.folder / "checkpoints"),
        "num_generations": rollouts.samples,
        "num_generations_eval": validation.samples,
        "per_device_train_batch_size": training.micro_batch,
        "gradient_accumulation_steps": training.global_batch // (training.micro_batch * learners),
        "steps_per_generation": plan.rows // (training.micro_batch * learners),
        "per_device_eval_batch_size": validation.samples * 32 // learners,  # all 30 problems at once
        "max_completion_length": stage.max_sequence_tokens,
        "temperature": rollouts.temperature,
        "top_p": rollouts.top_p,
        "scale_rewards": "group" if recipe.advantages.normalize else "none",
        "loss_type": "dapo" if training.token_level_loss else "grpo",
        "epsilon": training.ratio_clip_min,
        "epsilon_high": stage.ratio_clip_max,
        "beta": stage.kl,
        "use_bias_correction_kl": "false",
        "vllm_importance_sampling_correction": "false",
        "learning_rate": stage.learning_rate,
        "weight_decay": training.weight_decay,
        "adam_beta1": training.betas[0],
        "adam_beta2": training.betas[1],
        "max_grad_norm": training.max_grad_norm,
        "lr_scheduler_type": "constant_with_warmup",
        "warmup_steps": training.warmup_steps * plan.updates,  # these steps are updates
        "max_steps": stage.steps * plan.updates,
        "eval_strategy": "steps",
        "eval_steps": validation.every * plan.updates,
        "eval_on_start": True,
        "save_strategy": "steps",
        "save_steps": validation.every * plan.updates,
        "save_total_limit": 2,
        "logging_steps": plan.updates,
        "report_to": "tensorboard",
        "bf16": "true" if training.dtype == "bfloat16" else "false",
        "gradient_checkpointing": "true",
        "model_init_kwargs": '{"dtype": "float32"}',
        "seed": plan.seed,
        "use_vllm": True,
        "vllm_mode": "colocate" if alone else "server",
    }
    if alone:
        return found | {
            "vllm_enable_sleep_mode": True,
            "vllm_gpu_memory_utilization": 0.45,
            "vllm_max_model_length": plan.sequence_tokens,
        }
    host = Expanded("$head") if plan.machines.nodes > 1 else "127.0.0.1"
    return found | {"vllm_server_host": host, "vllm_server_port": PORT, "vllm_server_timeout": 1800}
