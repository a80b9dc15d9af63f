"""Every metric of a run: its name, what it is, and its labels. The table in docs/monitoring.md is made of this."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric as Prometheus knows it."""

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
    Metric("rollouthub_run_info", "gauge", "1; its labels say which run this is.", ("run", "agent", "model")),
    Metric("rollouthub_run_planned", "gauge", "Rollouts the run is to have; absent where that is not known."),
    Metric("rollouthub_run_done", "gauge", "Rollouts decided for good, those of before a resume included."),
    Metric("rollouthub_run_bad_rows", "gauge", "Rows of data that make no task."),
    Metric(
        "rollouthub_rollouts_total",
        "counter",
        "Records committed, one an attempt. `kind`: scored, agent_failure, infrastructure_fault, verifier_fault or "
        "cancelled; `outcome` says which boundary broke.",
        ("environment", "kind", "outcome"),
    ),
    Metric("rollouthub_retries_total", "counter", "Attempts that followed a broken one.", _ENVIRONMENT),
    Metric("rollouthub_faults_total", "counter", "What broke, and when.", ("environment", "boundary", "phase")),
    Metric(
        "rollouthub_stage_seconds",
        "histogram",
        "What a rollout spent in queue (the pause before another attempt), setup, model, tool, agent (model and tool "
        "are parts of it), verify, close and total. A stage that was not reached is not counted.",
        ("environment", "stage"),
    ),
    Metric(
        "rollouthub_model_call_seconds", "histogram", "Each answer of the run's model, retries included.", _ENVIRONMENT
    ),
    Metric("rollouthub_tool_call_seconds", "histogram", "Each tool call.", _ENVIRONMENT),
    Metric("rollouthub_tool_errors_total", "counter", "Tool calls that told the model of an error.", _ENVIRONMENT),
    Metric("rollouthub_passed_total", "counter", "Scored rollouts that passed.", _ENVIRONMENT),
    Metric("rollouthub_failed_total", "counter", "Scored rollouts that did not pass.", _ENVIRONMENT),
    Metric("rollouthub_reward_mean", "gauge", "Mean reward of what is scored; absent before that.", _ENVIRONMENT),
    Metric("rollouthub_reward_recent_mean", "gauge", "The same over the last 256 scored.", _ENVIRONMENT),
    Metric("rollouthub_pass_rate", "gauge", "Passed of those that passed or failed; absent before that.", _ENVIRONMENT),
    Metric("rollouthub_pass_rate_recent", "gauge", "The same over the last 256.", _ENVIRONMENT),
    Metric("rollouthub_model_answers_total", "counter", "Answers of models on record.", ("environment", "role")),
    Metric("rollouthub_model_retries_total", "counter", "Failed tries before those answers.", ("environment", "role")),
    Metric("rollouthub_tokens_total", "counter", "Tokens: prompt, output, cached, reasoning.", _TOKENS),
    Metric("rollouthub_cost_dollars_total", "counter", "US dollars; absent without a price.", ("environment", "role")),
    Metric("rollouthub_unpriced_answers_total", "counter", "Answers whose cost is not known.", ("environment", "role")),
    Metric("rollouthub_queue_length", "gauge", "Samples nobody has begun to play; absent where that is not known."),
    Metric(
        "rollouthub_episodes_in_flight", "gauge", "Episodes by state: setup, model, tool, verify, close.", ("state",)
    ),
    Metric("rollouthub_pool_in_flight", "gauge", "Episodes being played."),
    Metric("rollouthub_pool_concurrency", "gauge", "How many may be at a time; absent where no pool decides that."),
    Metric("rollouthub_pool_workers", "gauge", "Processes that should play; absent where the run's own does."),
    Metric("rollouthub_pool_workers_alive", "gauge", "Those of them that live."),
    Metric("rollouthub_model_waiting", "gauge", "Calls that wait for a connection, a limit or a server.", ("model",)),
    Metric("rollouthub_model_in_flight", "gauge", "Calls on their way.", ("model",)),
    Metric("rollouthub_model_limit", "gauge", "How many there may be at once.", ("model",)),
    Metric("rollouthub_backend_up", "gauge", "1, or 0 while it is left alone or on trial.", _BACKEND),
    Metric("rollouthub_backend_in_flight", "gauge", "Calls it is working on.", _BACKEND),
    Metric("rollouthub_backend_limit", "gauge", "Calls it may have at once, where that is limited.", _BACKEND),
    Metric("rollouthub_backend_calls_total", "counter", "Tries begun.", _BACKEND),
    Metric("rollouthub_backend_errors_total", "counter", "Tries that failed by its fault.", _BACKEND),
    Metric("rollouthub_backend_latency_seconds", "gauge", "Median of its last answers.", _BACKEND),
    Metric("rollouthub_sandboxes_live", "gauge", "Sandboxes held now.", _SANDBOX),
    Metric("rollouthub_sandboxes_opened_total", "counter", "Sandboxes handed out.", _SANDBOX),
    Metric("rollouthub_sandboxes_failed_total", "counter", "Sandboxes that could not be had.", _SANDBOX),
    Metric("rollouthub_sandboxes_died_total", "counter", "Sandboxes that broke while they were held.", _SANDBOX),
    Metric("rollouthub_sandboxes_warm", "gauge", "Ready ahead, where the provider has a pool.", _SANDBOX),
    Metric("rollouthub_sandboxes_starting", "gauge", "Being started there.", _SANDBOX),
    Metric("rollouthub_sandboxes_ending", "gauge", "Being ended there.", _SANDBOX),
    Metric("rollouthub_environment_servers", "gauge", "Servers of an environment played over a wire.", _ENVIRONMENT),
    Metric("rollouthub_environment_servers_up", "gauge", "Those of them that can be used now.", _ENVIRONMENT),
    Metric("rollouthub_store_waiting", "gauge", "Records that are not committed yet."),
    Metric("rollouthub_store_commits_total", "counter", "Commits of the run's store."),
    Metric("rollouthub_store_records_total", "counter", "Records committed."),
    Metric("rollouthub_store_commit_seconds_total", "counter", "Seconds that committing took."),
    Metric("rollouthub_store_longest_commit_seconds", "gauge", "The longest commit."),
    Metric("rollouthub_disk_free_bytes", "gauge", "Free on the disk of the run's directory."),
    Metric("rollouthub_disk_bytes", "gauge", "Size of that disk."),
    Metric("rollouthub_event_loop_lag_seconds", "histogram", "How late a process's event loop was.", _PROCESS),
    Metric(
        "rollouthub_process_cpu_seconds_total", "counter", "User and system time of a process of the run.", _PROCESS
    ),
    Metric(
        "rollouthub_process_children_cpu_seconds_total",
        "counter",
        "The same of what it started, such as environment servers.",
        _PROCESS,
    ),
    Metric("rollouthub_process_resident_bytes", "gauge", "Its resident memory.", _PROCESS),
    Metric(
        "rollouthub_process_read_bytes_total", "counter", "Bytes it read from disks; absent where not known.", _PROCESS
    ),
    Metric("rollouthub_process_written_bytes_total", "counter", "Bytes it wrote to disks.", _PROCESS),
    Metric("rollouthub_spans_dropped_total", "counter", "Spans that could not be delivered.", _PROCESS),
    Metric(
        "rollouthub_gpu_utilisation", "gauge", "Share of time it is busy; absent without a GPU.", ("machine", "gpu")
    ),
    Metric("rollouthub_gpu_memory_used_bytes", "gauge", "Memory in use there.", ("machine", "gpu")),
    Metric("rollouthub_gpu_memory_bytes", "gauge", "Memory it has.", ("machine", "gpu")),
)
"""Beside these, `process_*` of prometheus_client for the process that answers (start time, open files …)."""


def table() -> str:
    """The metrics as a table of Markdown."""
    rows = [f"| `{metric.name}` | {metric.kind} | {', '.join(metric.labels)} | {metric.note} |" for metric in METRICS]
    return "\n".join(["| metric | kind | labels | meaning |", "| --- | --- | --- | --- |", *rows])
