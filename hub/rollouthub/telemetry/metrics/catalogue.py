"""Every metric of a run: its name, meaning and labels. The table in docs/monitoring.md is generated from this list."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: its Prometheus name, kind, help text and labels."""

    name: str
    kind: Kind
    note: str
    labels: tuple[str, ...] = ()


_ENVIRONMENT = ("environment",)
_SANDBOX = ("environment", "provider")
_BACKEND = ("model", "backend")
_TOKENS = ("environment", "role", "kind")
_PROCESS = ("process",)

METRICS = (
    Metric("rollouthub_run_info", "gauge", "Always 1; its labels identify the run.", ("run", "agent", "model")),
    Metric("rollouthub_run_planned", "gauge", "Planned rollouts; absent where the number is unknown."),
    Metric("rollouthub_run_done", "gauge", "Settled rollouts, including those from before a resumption."),
    Metric("rollouthub_run_bad_rows", "gauge", "Data rows that are not valid tasks."),
    Metric(
        "rollouthub_trainer",
        "gauge",
        "The latest figures that a trainer logged with `supply.log`, by name, such as loss.",
        ("figure",),
    ),
    Metric(
        "rollouthub_rollouts_total",
        "counter",
        "Records committed, one for each attempt. `kind`: scored, agent_failure, infrastructure_fault, verifier_fault "
        "or cancelled; `outcome` says which boundary broke.",
        ("environment", "kind", "outcome"),
    ),
    Metric("rollouthub_retries_total", "counter", "Attempts that followed a broken one.", _ENVIRONMENT),
    Metric(
        "rollouthub_faults_total",
        "counter",
        "Faults, by the boundary that broke and the phase of the episode.",
        ("environment", "boundary", "phase"),
    ),
    Metric(
        "rollouthub_stage_seconds",
        "histogram",
        "Seconds of an attempt in queue (the pause before another attempt), setup, model, tool, agent (includes model "
        "and tool), verify, close and total. A stage that was not reached is not counted.",
        ("environment", "stage"),
    ),
    Metric(
        "rollouthub_model_call_seconds",
        "histogram",
        "Seconds of each answer of the run's model, retries included.",
        _ENVIRONMENT,
    ),
    Metric("rollouthub_tool_call_seconds", "histogram", "Seconds of each tool call.", _ENVIRONMENT),
    Metric("rollouthub_tool_errors_total", "counter", "Tool calls that returned an error to the model.", _ENVIRONMENT),
    Metric("rollouthub_passed_total", "counter", "Scored rollouts that passed.", _ENVIRONMENT),
    Metric("rollouthub_failed_total", "counter", "Scored rollouts that did not pass.", _ENVIRONMENT),
    Metric("rollouthub_reward_mean", "gauge", "Mean reward of scored rollouts; absent without any.", _ENVIRONMENT),
    Metric("rollouthub_reward_recent_mean", "gauge", "Mean reward of the last 256 scored rollouts.", _ENVIRONMENT),
    Metric(
        "rollouthub_pass_rate",
        "gauge",
        "Share that passed, of rollouts that passed or failed; absent without any.",
        _ENVIRONMENT,
    ),
    Metric(
        "rollouthub_pass_rate_recent",
        "gauge",
        "Share that passed, of the last 256 that passed or failed.",
        _ENVIRONMENT,
    ),
    Metric("rollouthub_model_answers_total", "counter", "Model answers in committed records.", ("environment", "role")),
    Metric(
        "rollouthub_model_retries_total",
        "counter",
        "Failed tries before the answers in committed records.",
        ("environment", "role"),
    ),
    Metric("rollouthub_tokens_total", "counter", "Tokens: prompt, output, cached, reasoning.", _TOKENS),
    Metric("rollouthub_cost_dollars_total", "counter", "US dollars; absent without a price.", ("environment", "role")),
    Metric("rollouthub_unpriced_answers_total", "counter", "Answers whose cost is not known.", ("environment", "role")),
    Metric("rollouthub_queue_length", "gauge", "Samples that are not started yet; absent where the number is unknown."),
    Metric(
        "rollouthub_episodes_in_flight", "gauge", "Episodes by state: setup, model, tool, verify, close.", ("state",)
    ),
    Metric("rollouthub_pool_in_flight", "gauge", "Episodes being played."),
    Metric(
        "rollouthub_pool_concurrency", "gauge", "Maximum number of concurrent episodes; absent where no pool limits it."
    ),
    Metric(
        "rollouthub_pool_workers",
        "gauge",
        "Worker processes the pool should have; absent where the run's own process plays.",
    ),
    Metric("rollouthub_pool_workers_alive", "gauge", "Worker processes of the pool that are alive."),
    Metric("rollouthub_model_waiting", "gauge", "Calls that wait for a connection, a limit or a server.", ("model",)),
    Metric("rollouthub_model_in_flight", "gauge", "Model calls that were sent and are not answered yet.", ("model",)),
    Metric("rollouthub_model_limit", "gauge", "Maximum number of concurrent model calls.", ("model",)),
    Metric(
        "rollouthub_backend_up",
        "gauge",
        "1, or 0 while the backend is held back after failures or on trial.",
        _BACKEND,
    ),
    Metric("rollouthub_backend_in_flight", "gauge", "Calls that the backend is working on.", _BACKEND),
    Metric(
        "rollouthub_backend_limit",
        "gauge",
        "Maximum number of concurrent calls to the backend, where limited.",
        _BACKEND,
    ),
    Metric("rollouthub_backend_calls_total", "counter", "Tries of calls sent to the backend.", _BACKEND),
    Metric("rollouthub_backend_errors_total", "counter", "Tries that failed because of the backend.", _BACKEND),
    Metric("rollouthub_backend_latency_seconds", "gauge", "Median seconds of the backend's latest answers.", _BACKEND),
    Metric("rollouthub_sandboxes_live", "gauge", "Sandboxes in use now.", _SANDBOX),
    Metric("rollouthub_sandboxes_opened_total", "counter", "Sandboxes handed out.", _SANDBOX),
    Metric("rollouthub_sandboxes_failed_total", "counter", "Sandboxes that could not be opened.", _SANDBOX),
    Metric("rollouthub_sandboxes_died_total", "counter", "Sandboxes that broke while in use.", _SANDBOX),
    Metric("rollouthub_sandboxes_warm", "gauge", "Warm sandboxes that are ready in the provider's pool.", _SANDBOX),
    Metric("rollouthub_sandboxes_starting", "gauge", "Sandboxes that the provider's pool is starting.", _SANDBOX),
    Metric("rollouthub_sandboxes_ending", "gauge", "Sandboxes that the provider's pool is ending.", _SANDBOX),
    Metric(
        "rollouthub_environment_servers",
        "gauge",
        "Servers of an environment that is played over the network.",
        _ENVIRONMENT,
    ),
    Metric(
        "rollouthub_environment_servers_up", "gauge", "Servers of an environment that can be used now.", _ENVIRONMENT
    ),
    Metric("rollouthub_store_waiting", "gauge", "Records that are not committed yet."),
    Metric("rollouthub_store_commits_total", "counter", "Commits of the run's store."),
    Metric("rollouthub_store_records_total", "counter", "Records committed."),
    Metric("rollouthub_store_commit_seconds_total", "counter", "Total seconds of the commits."),
    Metric("rollouthub_store_longest_commit_seconds", "gauge", "Seconds of the longest commit."),
    Metric("rollouthub_disk_free_bytes", "gauge", "Free bytes on the disk of the run's directory."),
    Metric("rollouthub_disk_bytes", "gauge", "Size in bytes of the disk of the run's directory."),
    Metric(
        "rollouthub_event_loop_lag_seconds", "histogram", "Seconds by which a process's event loop was late.", _PROCESS
    ),
    Metric(
        "rollouthub_process_cpu_seconds_total",
        "counter",
        "Seconds of user and system CPU time of a process of the run.",
        _PROCESS,
    ),
    Metric(
        "rollouthub_process_children_cpu_seconds_total",
        "counter",
        "Seconds of CPU time of the processes that it started, such as environment servers.",
        _PROCESS,
    ),
    Metric("rollouthub_process_resident_bytes", "gauge", "Resident memory in bytes of a process of the run.", _PROCESS),
    Metric(
        "rollouthub_process_read_bytes_total",
        "counter",
        "Bytes that a process read from disks; absent where unknown.",
        _PROCESS,
    ),
    Metric(
        "rollouthub_process_written_bytes_total",
        "counter",
        "Bytes that a process wrote to disks; absent where unknown.",
        _PROCESS,
    ),
    Metric(
        "rollouthub_network_received_bytes_total",
        "counter",
        "Bytes that a machine's network cards received, for all its processes; absent where unknown.",
        ("machine",),
    ),
    Metric(
        "rollouthub_network_sent_bytes_total",
        "counter",
        "Bytes that a machine's network cards sent, for all its processes; absent where unknown.",
        ("machine",),
    ),
    Metric("rollouthub_spans_dropped_total", "counter", "Spans that could not be delivered.", _PROCESS),
    Metric(
        "rollouthub_gpu_utilisation",
        "gauge",
        "Share of time that the GPU is busy; absent without a GPU.",
        ("machine", "gpu"),
    ),
    Metric("rollouthub_gpu_memory_used_bytes", "gauge", "Bytes of GPU memory in use.", ("machine", "gpu")),
    Metric("rollouthub_gpu_memory_bytes", "gauge", "Bytes of GPU memory.", ("machine", "gpu")),
)
"""The hub's metrics. `process_*` of prometheus_client are added for the process that answers (start time, open files
…).
"""


def table() -> str:
    """The metrics as a Markdown table."""
    rows = [f"| `{metric.name}` | {metric.kind} | {', '.join(metric.labels)} | {metric.note} |" for metric in METRICS]
    return "\n".join(["| metric | kind | labels | meaning |", "| --- | --- | --- | --- |", *rows])
