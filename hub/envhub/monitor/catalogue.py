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
    Metric("envhub_run_info", "gauge", "1; its labels say which run this is.", ("run", "agent", "model")),
    Metric("envhub_run_planned", "gauge", "Rollouts the run is to have; absent where that is not known."),
    Metric("envhub_run_done", "gauge", "Rollouts decided for good, those of before a resume included."),
    Metric("envhub_run_bad_rows", "gauge", "Rows of data that make no task."),
    Metric(
        "envhub_rollouts_total",
        "counter",
        "Records committed, one an attempt. `kind`: scored, agent_failure, infrastructure_fault, verifier_fault or "
        "cancelled; `outcome` says which boundary broke.",
        ("environment", "kind", "outcome"),
    ),
    Metric("envhub_retries_total", "counter", "Attempts that followed a broken one.", _ENVIRONMENT),
    Metric("envhub_faults_total", "counter", "What broke, and when.", ("environment", "boundary", "phase")),
    Metric(
        "envhub_stage_seconds",
        "histogram",
        "What a rollout spent in queue (the pause before another attempt), setup, model, tool, agent (model and tool "
        "are parts of it), verify, close and total. A stage that was not reached is not counted.",
        ("environment", "stage"),
    ),
    Metric("envhub_model_call_seconds", "histogram", "Each answer of the run's model, retries included.", _ENVIRONMENT),
    Metric("envhub_tool_call_seconds", "histogram", "Each tool call.", _ENVIRONMENT),
    Metric("envhub_tool_errors_total", "counter", "Tool calls that told the model of an error.", _ENVIRONMENT),
    Metric("envhub_passed_total", "counter", "Scored rollouts that passed.", _ENVIRONMENT),
    Metric("envhub_failed_total", "counter", "Scored rollouts that did not pass.", _ENVIRONMENT),
    Metric("envhub_reward_mean", "gauge", "Mean reward of what is scored; absent before that.", _ENVIRONMENT),
    Metric("envhub_reward_recent_mean", "gauge", "The same over the last 256 scored.", _ENVIRONMENT),
    Metric("envhub_pass_rate", "gauge", "Passed of those that passed or failed; absent before that.", _ENVIRONMENT),
    Metric("envhub_pass_rate_recent", "gauge", "The same over the last 256.", _ENVIRONMENT),
    Metric("envhub_model_answers_total", "counter", "Answers of models on record.", ("environment", "role")),
    Metric("envhub_model_retries_total", "counter", "Failed tries before those answers.", ("environment", "role")),
    Metric("envhub_tokens_total", "counter", "Tokens: prompt, output, cached, reasoning.", _TOKENS),
    Metric("envhub_cost_dollars_total", "counter", "US dollars; absent without a price.", ("environment", "role")),
    Metric("envhub_unpriced_answers_total", "counter", "Answers whose cost is not known.", ("environment", "role")),
    Metric("envhub_queue_length", "gauge", "Samples nobody has begun to play; absent where that is not known."),
    Metric("envhub_episodes_in_flight", "gauge", "Episodes by state: setup, model, tool, verify, close.", ("state",)),
    Metric("envhub_pool_in_flight", "gauge", "Episodes being played."),
    Metric("envhub_pool_concurrency", "gauge", "How many may be at a time; absent where no pool decides that."),
    Metric("envhub_pool_workers", "gauge", "Processes that should play; absent where the run's own does."),
    Metric("envhub_pool_workers_alive", "gauge", "Those of them that live."),
    Metric("envhub_model_waiting", "gauge", "Calls that wait for a connection, a limit or a server.", ("model",)),
    Metric("envhub_model_in_flight", "gauge", "Calls on their way.", ("model",)),
    Metric("envhub_model_limit", "gauge", "How many there may be at once.", ("model",)),
    Metric("envhub_backend_up", "gauge", "1, or 0 while it is left alone or on trial.", _BACKEND),
    Metric("envhub_backend_in_flight", "gauge", "Calls it is working on.", _BACKEND),
    Metric("envhub_backend_limit", "gauge", "Calls it may have at once, where that is limited.", _BACKEND),
    Metric("envhub_backend_calls_total", "counter", "Tries begun.", _BACKEND),
    Metric("envhub_backend_errors_total", "counter", "Tries that failed by its fault.", _BACKEND),
    Metric("envhub_backend_latency_seconds", "gauge", "Median of its last answers.", _BACKEND),
    Metric("envhub_sandboxes_live", "gauge", "Sandboxes held now.", _SANDBOX),
    Metric("envhub_sandboxes_opened_total", "counter", "Sandboxes handed out.", _SANDBOX),
    Metric("envhub_sandboxes_failed_total", "counter", "Sandboxes that could not be had.", _SANDBOX),
    Metric("envhub_sandboxes_died_total", "counter", "Sandboxes that broke while they were held.", _SANDBOX),
    Metric("envhub_sandboxes_warm", "gauge", "Ready ahead, where the provider has a pool.", _SANDBOX),
    Metric("envhub_sandboxes_starting", "gauge", "Being started there.", _SANDBOX),
    Metric("envhub_sandboxes_ending", "gauge", "Being ended there.", _SANDBOX),
    Metric("envhub_environment_servers", "gauge", "Servers of an environment played over a wire.", _ENVIRONMENT),
    Metric("envhub_environment_servers_up", "gauge", "Those of them that can be used now.", _ENVIRONMENT),
    Metric("envhub_store_waiting", "gauge", "Records that are not committed yet."),
    Metric("envhub_store_commits_total", "counter", "Commits of the run's store."),
    Metric("envhub_store_records_total", "counter", "Records committed."),
    Metric("envhub_store_commit_seconds_total", "counter", "Seconds that committing took."),
    Metric("envhub_store_longest_commit_seconds", "gauge", "The longest commit."),
    Metric("envhub_disk_free_bytes", "gauge", "Free on the disk of the run's directory."),
    Metric("envhub_disk_bytes", "gauge", "Size of that disk."),
    Metric("envhub_event_loop_lag_seconds", "histogram", "How late a process's event loop was.", _PROCESS),
    Metric("envhub_process_cpu_seconds_total", "counter", "User and system time of a process of the run.", _PROCESS),
    Metric(
        "envhub_process_children_cpu_seconds_total",
        "counter",
        "The same of what it started, such as environment servers.",
        _PROCESS,
    ),
    Metric("envhub_process_resident_bytes", "gauge", "Its resident memory.", _PROCESS),
    Metric("envhub_process_read_bytes_total", "counter", "Bytes it read from disks; absent where not known.", _PROCESS),
    Metric("envhub_process_written_bytes_total", "counter", "Bytes it wrote to disks.", _PROCESS),
    Metric("envhub_spans_dropped_total", "counter", "Spans that could not be delivered.", _PROCESS),
    Metric("envhub_gpu_utilisation", "gauge", "Share of time it is busy; absent without a GPU.", ("machine", "gpu")),
    Metric("envhub_gpu_memory_used_bytes", "gauge", "Memory in use there.", ("machine", "gpu")),
    Metric("envhub_gpu_memory_bytes", "gauge", "Memory it has.", ("machine", "gpu")),
)
"""Beside these, `process_*` of prometheus_client for the process that answers (start time, open files …)."""


def table() -> str:
    """The metrics as a table of Markdown."""
    rows = [f"| `{metric.name}` | {metric.kind} | {', '.join(metric.labels)} | {metric.note} |" for metric in METRICS]
    return "\n".join(["| metric | kind | labels | meaning |", "| --- | --- | --- | --- |", *rows])
