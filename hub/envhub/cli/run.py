"""`hub run`: play an environment's tasks and keep the scored rollouts."""

from pathlib import Path
from typing import Annotated, Any

import typer

from envhub.errors import ConfigError


def run(
    environments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ENV",
            help="Environments by name (`hub list`), a file of your own (./dice.py), or a server (http://HOST:PORT).",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "-m", "--model", help="Who generates, in litellm's words: hosted_vllm/NAME, gpt-4o, mock/solver …"
        ),
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option("-a", "--agent", help="Who acts: tool_loop (the default with -m), react, single_turn, oracle …"),
    ] = None,
    base_url: Annotated[
        list[str] | None,
        typer.Option(
            help="The model server's address; repeat it for replicas. Else HOSTED_VLLM_API_BASE or OPENAI_BASE_URL."
        ),
    ] = None,
    role: Annotated[
        list[str] | None,
        typer.Option(metavar="ROLE=MODEL", help="A model that the environment asks itself: judge=gpt-4o."),
    ] = None,
    split: Annotated[str | None, typer.Option(help="Which tasks; the environment's first split by default.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N tasks of each environment.")] = None,
    repeats: Annotated[int | None, typer.Option(min=1, help="Samples of each task (pass@k wants several).")] = None,
    concurrency: Annotated[
        int | None,
        typer.Option(
            "-c", "--concurrency", min=1, help="Episodes in flight (32 by default).", rich_help_panel="Robustness"
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seeds tasks and episodes, and the model's sampling.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="An environment's setting; ENV.KEY for one of several."),
    ] = None,
    agent_settings: Annotated[
        list[str] | None, typer.Option("--agent-set", metavar="KEY=VALUE", help="A setting of the agent.")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(help="A TOML file (or a run's resolved.json) with these options; what is given here wins."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="The run's directory; runs/ENV-AGENT-TIME by default.", rich_help_panel="Output"
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Go on with the run in -o: what is done stays, faults are tried again.",
            rich_help_panel="Output",
        ),
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print one JSON object on stdout instead of tables.", rich_help_panel="Output"),
    ] = False,
    lane: Annotated[
        str | None,
        typer.Option(
            metavar="direct|litellm",
            help="How model calls travel; chosen by the model's name by default.",
            rich_help_panel="Models",
        ),
    ] = None,
    fallback: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODEL", help="Ask this model when the first fails for good; repeatable.", rich_help_panel="Models"
        ),
    ] = None,
    requests_per_minute: Annotated[
        int | None,
        typer.Option("--rpm", min=1, help="Most model calls begun in any 60 seconds.", rich_help_panel="Models"),
    ] = None,
    tokens_per_minute: Annotated[
        int | None, typer.Option("--tpm", min=1, help="Most tokens in any 60 seconds.", rich_help_panel="Models")
    ] = None,
    budget: Annotated[
        float | None, typer.Option(min=0.0, help="US dollars the run's model may cost.", rich_help_panel="Models")
    ] = None,
    temperature: Annotated[float | None, typer.Option(help="Sampling temperature.", rich_help_panel="Sampling")] = None,
    top_p: Annotated[float | None, typer.Option(help="Nucleus sampling.", rich_help_panel="Sampling")] = None,
    max_tokens: Annotated[
        int | None, typer.Option(min=1, help="Output tokens of one response.", rich_help_panel="Sampling")
    ] = None,
    max_turns: Annotated[
        int | None, typer.Option(min=1, help="Limit: responses in an episode.", rich_help_panel="Limits")
    ] = None,
    max_total_tokens: Annotated[
        int | None, typer.Option(min=1, help="Limit: output tokens of an episode.", rich_help_panel="Limits")
    ] = None,
    max_seconds: Annotated[
        float | None, typer.Option(min=0.001, help="Limit: wall time of the agent.", rich_help_panel="Limits")
    ] = None,
    max_cost: Annotated[
        float | None, typer.Option(min=0.0, help="Limit: US dollars of an episode.", rich_help_panel="Limits")
    ] = None,
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
    in_process: Annotated[
        bool,
        typer.Option(
            "--in-process",
            help="Host an installed third-party environment in this process.",
            rich_help_panel="Robustness",
        ),
    ] = False,
    served: Annotated[
        bool,
        typer.Option(
            "--served",
            help="Give every environment a process of its own, and play over MCP.",
            rich_help_panel="Robustness",
        ),
    ] = False,
    quiet: Annotated[
        bool, typer.Option("-q", "--quiet", help="No progress, only the result.", rich_help_panel="Output")
    ] = False,
) -> None:
    """Play an environment's tasks and keep the scored rollouts.

    Without -m and -a the oracle plays the reference solutions: a check of the environment, no model needed.

    Exit codes: 0 every rollout scored, 1 some unscored, 2 usage, 130 interrupted.
    """
    from envhub.cli.collect import collect_command

    given: dict[str, Any] = {
        "environments": environments or None,
        "model": model,
        "agent": agent,
        "base_url": base_url or None,
        "lane": lane,
        "fallbacks": fallback or None,
        "requests_per_minute": requests_per_minute,
        "tokens_per_minute": tokens_per_minute,
        "budget": budget,
        "roles": _roles(role or []),
        "split": split,
        "limit": limit,
        "repeats": repeats,
        "concurrency": concurrency,
        "seed": seed,
        "set": assignments(settings or [], "--set") or None,
        "agent_set": assignments(agent_settings or [], "--agent-set") or None,
        "sampling": _some(temperature=temperature, top_p=top_p, max_tokens=max_tokens),
        "limits": _some(max_turns=max_turns, max_tokens=max_total_tokens, max_seconds=max_seconds, max_cost=max_cost),
        "retries": _some(infrastructure=retries),
        "skip_bad": skip_bad or None,
        "in_process": in_process or None,
        "served": served or None,
    }
    code = collect_command(
        {key: value for key, value in given.items() if value is not None}, config, output, resume, as_json, quiet
    )
    raise typer.Exit(code)


def _roles(pairs: list[str]) -> dict[str, Any] | None:
    """`ROLE=MODEL` pairs as settings."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, model = pair.partition("=")
        if not equals or not name or not model:
            raise ConfigError(f"--role {pair!r} is not ROLE=MODEL, for example --role judge=mock/say?text=yes")
        found[name] = model
    return found or None


def _some(**values: Any) -> dict[str, Any] | None:
    return {key: value for key, value in values.items() if value is not None} or None


def assignments(pairs: list[str], option: str) -> dict[str, Any]:
    """`key=value` pairs; a value that is a JSON array, object, string or null is read as that, all else as text.

    Raises:
        ConfigError: a pair without `=`, or broken JSON.
    """
    import json

    found: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise ConfigError(f"{option} {pair!r} is not KEY=VALUE")
        if value == "null" or value[:1] in ("[", "{", '"'):
            try:
                found[key] = json.loads(value)
            except ValueError as error:
                raise ConfigError(f"{option} {key}: {value!r} looks like JSON, but {error}") from None
        else:
            found[key] = value
    return found
