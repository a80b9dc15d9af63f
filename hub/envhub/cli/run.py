"""`hub run`: play an environment's tasks and keep the scored rollouts."""

from pathlib import Path
from typing import Annotated

import typer

from envhub.cli.options import (
    BaseUrlOption,
    BudgetOption,
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
    ModelOption,
    NoTrackOption,
    RequestsPerMinuteOption,
    ResumeOption,
    RoleOption,
    SeedOption,
    ServedOption,
    ServersOption,
    SetOption,
    TemperatureOption,
    TokensPerMinuteOption,
    TopPOption,
    TrackOption,
    run_settings,
    some,
    trackers_of,
)


def run(
    environments: EnvironmentArguments = None,
    model: ModelOption = None,
    agent: Annotated[
        str | None,
        typer.Option("-a", "--agent", help="Who acts: tool_loop (the default with -m), react, single_turn, oracle …"),
    ] = None,
    base_url: BaseUrlOption = None,
    role: RoleOption = None,
    split: Annotated[str | None, typer.Option(help="Which tasks; the environment's first split by default.")] = None,
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
    temperature: TemperatureOption = None,
    top_p: TopPOption = None,
    max_tokens: MaxTokensOption = None,
    max_turns: MaxTurnsOption = None,
    max_total_tokens: MaxTotalTokensOption = None,
    max_seconds: MaxSecondsOption = None,
    max_cost: MaxCostOption = None,
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
    track: TrackOption = None,
    no_track: NoTrackOption = False,
    quiet: Annotated[
        bool, typer.Option("-q", "--quiet", help="No progress, only the result.", rich_help_panel="Output")
    ] = False,
) -> None:
    """Play an environment's tasks and keep the scored rollouts.

    Without -m and -a the oracle plays the reference solutions: a check of the environment, no model needed.

    Exit codes: 0 every rollout scored, 1 some unscored, 2 usage, 130 interrupted.
    """
    from envhub.cli.collect import collect_command

    given = run_settings(
        environments=environments,
        model=model,
        agent=agent,
        base_url=base_url,
        lane=lane,
        fallbacks=fallback,
        requests_per_minute=requests_per_minute,
        tokens_per_minute=tokens_per_minute,
        budget=budget,
        roles=role,
        split=split,
        limit=limit,
        repeats=repeats,
        concurrency=concurrency,
        seed=seed,
        set=settings,
        agent_set=agent_settings,
        sampling=some(temperature=temperature, top_p=top_p, max_tokens=max_tokens),
        limits=some(max_turns=max_turns, max_tokens=max_total_tokens, max_seconds=max_seconds, max_cost=max_cost),
        retries=some(infrastructure=retries),
        skip_bad=skip_bad,
        in_process=in_process,
        served=served,
        servers=servers,
        track=trackers_of(track, no_track),
    )
    code = collect_command(given, config, output, resume, as_json, quiet)
    raise typer.Exit(code)
