"""The shell scripts: what every `launch.sh` begins with, Ray over several machines, and vLLM's servers."""

from pathlib import Path

from launches.plan import GPUS_PER_NODE, Expanded, Plan, command, flags, line

EXAMPLE = Path(__file__).parents[1]
_ENDED_WITH_IT = "server=$!\ntrap 'kill \"$server\" 2>/dev/null || true' EXIT\n"
PYTHON = '"${PYTHON:-python}"'


def beginning(plan: Plan, system: str) -> str:
    """Shell: what it is, how it is started, and where it runs."""
    machines, stage = plan.machines, plan.stage
    many = machines.nodes > 1
    started = (
        f"# On every machine: HEAD=ADDRESS_OF_THE_FIRST NODE=0 (to {machines.nodes - 1}) bash launch.sh\n"
        f"# Under Slurm, once: srun --nodes {machines.nodes} --ntasks-per-node 1 --gpus-per-node {machines.per_node}"
        " bash launch.sh\n"
        if many
        else "# bash launch.sh\n"
    )
    found = (
        "node=${NODE:-${SLURM_NODEID:?which machine is this? set NODE, from 0}}\n"
        'head=${HEAD:-$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)}\n'
        if many
        else "node=0\nhead=127.0.0.1\n"
    )
    size = f"{machines.nodes} machines of {machines.per_node} GPUs" if many else f"{machines.gpus} GPU(s)"
    return (
        "#!/usr/bin/env bash\n"
        f"# DeepScaleR, stage {stage.name}, with {system} on {size}; made by examples/deepscaler/launch.py.\n"
        f"{started}"
        "# PYTHON names another interpreter than `python`; options that are given go to the trainer, too.\n"
        "set -euo pipefail\n"
        f"cd {line(str(plan.folder))}\n"
        f"{found}"
    )


def ray_over(plan: Plan) -> str:
    """Shell: a Ray cluster of all machines; only the first goes on. For one machine nothing: systems start Ray."""
    machines = plan.machines
    if machines.nodes == 1:
        return ""
    gpus, address = str(machines.per_node), Expanded("$head:$port")
    follow = flags({"address": address, "num-gpus": gpus, "block": True})
    lead = flags({"head": True, "node-ip-address": Expanded("$head"), "port": Expanded("$port"), "num-gpus": gpus})
    count = 'import ray; ray.init("auto", log_to_driver=False); print(int(ray.cluster_resources().get("GPU", 0)))'
    return (
        "port=${RAY_PORT:-6379}\n"
        '\nif [ "$node" -gt 0 ]; then\n'
        '  until (exec 3<>"/dev/tcp/$head/$port") 2>/dev/null; do sleep 5; done\n'
        f"  exec {line('ray', 'start', options=follow)}\n"
        "fi\n"
        f"{line('ray', 'start', options=lead)}\n"
        "trap 'ray stop' EXIT\n"
        f"until [ \"$({PYTHON} -c '{count}')\" -ge {machines.gpus} ]; do sleep 5; done\n"
    )


def prompts(plan: Plan, system: str, *files: str) -> str:
    """Shell: write the system's data sets once."""
    data = plan.data
    options = flags({"train-split": data.train_split, "validation-split": data.validation_split})
    write = command(str(EXAMPLE / "prompts.py"), system, "play.toml", options=options, before=PYTHON)
    missing = " || ".join(f"[ ! -e {file} ]" for file in files)
    return f"\nif {missing}; then\n  {write}\nfi\n"


def servers(plan: Plan, gpus: int) -> str:
    """Shell: vLLM on the first GPUs of one machine, or on all GPUs of the first machines, as one server at port 8000.

    Of several machines the others go on; those that serve end when the first that learns says so by the file `ended`.
    """
    options: dict[str, object] = {
        "served-model-name": "policy",
        "max-model-len": str(plan.sequence_tokens),
        "data-parallel-size": str(gpus),
        "gpu-memory-utilization": "0.9",
        "logprobs-mode": "processed_logprobs",
        "max-logprobs": "-1",
        "weight-transfer-config": '{"backend": "nccl"}',
        "seed": str(plan.seed),
    }
    served, mode = ("vllm", "serve", plan.policy), "VLLM_SERVER_DEV_MODE=1"
    if plan.machines.nodes == 1:
        visible = ",".join(map(str, range(gpus)))
        start = command(*served, options=flags(options), before=f"CUDA_VISIBLE_DEVICES={visible} {mode}")
        return f"\n{start} &\n{_ENDED_WITH_IT}"
    serving = gpus // GPUS_PER_NODE
    options |= {"data-parallel-size-local": str(GPUS_PER_NODE), "data-parallel-address": Expanded("$head")}
    options["data-parallel-rpc-port"] = "13345"
    first = command(*served, options=flags({**options, "host": "0.0.0.0"}), before=mode)
    others = {**options, "headless": True, "data-parallel-start-rank": Expanded("$start")}
    return (
        f'\nif [ "$node" -lt {serving} ]; then\n'
        f"rm -f ended\nstart=$((node * {GPUS_PER_NODE}))\n"
        f'if [ "$node" -eq 0 ]; then\n{first} &\nelse\n{command(*served, options=flags(others), before=mode)} &\nfi\n'
        f"{_ENDED_WITH_IT}"
        'while kill -0 "$server" 2>/dev/null && [ ! -e ended ]; do sleep 1; done\nexit\nfi\n'
        f"if [ \"$node\" -eq {serving} ]; then trap 'touch ended' EXIT; fi\n"
    )
