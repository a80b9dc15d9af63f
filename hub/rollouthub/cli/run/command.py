"""`hub run`: play an environment's tasks and keep the scored rollouts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from rollouthub.cli.deadline_options import DEADLINES, deadlines_of, seconds_of, takes_deadlines
from rollouthub.cli.lock_options import LockedOption, LockOption, lock_file
from rollouthub.cli.options import (
    AtLimitOption,
    BaseUrlOption,
    BudgetOption,
    BuildNetworkOption,
    ConfigOption,
    EnvironmentArguments,
    FallbackOption,
    InProcessOption,
    LaneOption,
    LimitOption,
    MaxCostOption,
    MaxSecondsOption,
    MaxTokensOption,
    MaxTotalTokensOption,
    MaxTurnsOption,
    MetricsOption,
    ModelOption,
    NoTrackOption,
    PoolOption,
    PriceOutputOption,
    PricePromptOption,
    QuietOption,
    RayAddressOption,
    RequestsPerMinuteOption,
    ResumeOption,
    RoleOption,
    RunCostOption,
    RunSecondsOption,
    RunTokensOption,
    SampleOption,
    SeedOption,
    ServedOption,
    ServersOption,
    SetOption,
    ShuffleOption,
    SkipOption,
    TaskOption,
    TemperatureOption,
    TokensPerMinuteOption,
    TopPOption,
    TracesOption,
    TrackOption,
    WorkersOption,
    run_settings,
    some,
    trackers_of,
    workers_of,
)

AS_NAMED = (
    "environments",
    "model",
    "agent",
    "base_url",
    "lane",
    "requests_per_minute",
    "tokens_per_minute",
    "budget",
    "price_prompt",
    "price_output",
    "split",
    "shuffle",
    "skip",
    "sample",
    "limit",
    "repeats",
    "concurrency",
    "seed",
    "skip_bad",
    "in_process",
    "served",
    "servers",
    "metrics",
    "pool",
    "traces",
)
"""Options that are called as the settings are."""


@takes_deadlines(*DEADLINES)
def run(
    environments: EnvironmentArguments = None,
    model: ModelOption = None,
    agent: Annotated[
        str | None,
        typer.Option(
            "-a",
            "--agent",
            help="Who acts: tool_loop, react, single_turn, oracle …; with -m the environment's own (`hub list`).",
        ),
    ] = None,
    base_url: BaseUrlOption = None,
    role: RoleOption = None,
    split: Annotated[str | None, typer.Option(help="Which tasks; the environment's first split by default.")] = None,
    task: TaskOption = None,
    shuffle: ShuffleOption = False,
    skip: SkipOption = None,
    sample: SampleOption = None,
    limit: LimitOption = None,
    repeats: Annotated[int | None, typer.Option(min=1, help="Samples of each task (pass@k wants several).")] = None,
    concurrency: Annotated[
        int | None,
        typer.Option(
            "-c", "--concurrency", min=1, help="Episodes in flight (32 by default).", rich_help_panel="Robustness"
        ),
    ] = None,
    seed: SeedOption = None,
    settings: SetOption = None,
    build_network: BuildNetworkOption = None,
    agent_settings: Annotated[
        list[str] | None, typer.Option("--agent-set", metavar="KEY=VALUE", help="A setting of the agent.")
    ] = None,
    config: ConfigOption = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="The run's directory; runs/ENV-AGENT-TIME by default.", rich_help_panel="Output"
        ),
    ] = None,
    resume: ResumeOption = False,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print one JSON object on stdout instead of tables.", rich_help_panel="Output"),
    ] = False,
    lane: LaneOption = None,
    fallback: FallbackOption = None,
    requests_per_minute: RequestsPerMinuteOption = None,
    tokens_per_minute: TokensPerMinuteOption = None,
    budget: BudgetOption = None,
    price_prompt: PricePromptOption = None,
    price_output: PriceOutputOption = None,
    temperature: TemperatureOption = None,
    top_p: TopPOption = None,
    max_tokens: MaxTokensOption = None,
    max_turns: MaxTurnsOption = None,
    max_total_tokens: MaxTotalTokensOption = None,
    max_seconds: MaxSecondsOption = None,
    max_cost: MaxCostOption = None,
    run_cost: RunCostOption = None,
    run_tokens: RunTokensOption = None,
    run_seconds: RunSecondsOption = None,
    at_limit: AtLimitOption = None,
    retries: Annotated[
        int | None,
        typer.Option(
            min=0, help="Further attempts after an infrastructure fault (2 by default).", rich_help_panel="Robustness"
        ),
    ] = None,
    skip_bad: Annotated[
        bool,
        typer.Option(
            "--skip-bad", help="Leave out rows that make no task, and count them.", rich_help_panel="Robustness"
        ),
    ] = False,
    in_process: InProcessOption = False,
    served: ServedOption = False,
    servers: ServersOption = None,
    locked: LockedOption = False,
    lock: LockOption = None,
    metrics: MetricsOption = None,
    traces: TracesOption = None,
    pool: PoolOption = None,
    workers: WorkersOption = None,
    ray_address: RayAddressOption = None,
    track: TrackOption = None,
    no_track: NoTrackOption = False,
    quiet: QuietOption = False,
    **timeouts: Any,
) -> None:
    """Play an environment's tasks and keep the scored rollouts.

    Without -m and -a the oracle plays the reference solutions: a check of the environment, no model needed.

    Exit codes: 0 every rollout scored, 1 some unscored or not played, 2 usage, 130 interrupted.
    """
    given = settings_of({**locals(), **timeouts})
    from rollouthub.cli.run.action import collect_command

    code = collect_command(given, config, output, resume, as_json, quiet)
    raise typer.Exit(code)


def settings_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """What options set, by the names of `run`'s parameters; those that say how to run and not what are not among them.

    Raises:
        ConfigError: a value does not hold.
    """
    same = {name: options[name] for name in AS_NAMED}
    return run_settings(
        **same,
        tasks=options["task"],
        fallbacks=options["fallback"],
        roles=options["role"],
        set=options["settings"],
        build_network=options.get("build_network"),
        agent_set=options["agent_settings"],
        sampling=some(**{name: options[name] for name in ("temperature", "top_p", "max_tokens")}),
        limits=some(
            max_turns=options["max_turns"],
            max_tokens=options["max_total_tokens"],
            max_seconds=options["max_seconds"],
            max_cost=options["max_cost"],
        ),
        deadlines=deadlines_of(options),
        run_limits=some(
            max_cost=options["run_cost"],
            max_tokens=options["run_tokens"],
            max_seconds=seconds_of("--run-seconds", options["run_seconds"]),
            ending=options["at_limit"],
        ),
        workers=workers_of(options["workers"]),
        ray=some(address=options["ray_address"]),
        lock=None if (file := lock_file(options["locked"], options["lock"])) is None else str(file),
        retries=some(infrastructure=options["retries"]),
        track=trackers_of(options["track"], options["no_track"]),
    )
