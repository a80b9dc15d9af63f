"""A checkpoint on AIME 2024, AMC and MATH-500: avg@k with its standard error, and pass@k.

python examples/evaluate_checkpoint/evaluate.py -m hosted_vllm/NAME --base-url http://HOST:8000/v1 -o runs/step-240

Each set is its own run in the directory, so that an interrupted evaluation can be resumed, `hub report` shows it, and
`hub compare runs/step-0/aime24 runs/step-240/aime24` tells whether a difference is significant.
"""

import argparse
import json
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def command(given: Mapping[str, Any], chosen: Mapping[str, Any], options: argparse.Namespace) -> list[str]:
    """The `hub run` command that plays one set."""
    directory = Path(options.directory) / chosen["name"]
    words = [str(Path(sys.executable).with_name("hub")), "run", chosen["environment"], "-m", options.model]
    words += [word for url in options.base_url for word in ("--base-url", url)]
    words += ["-a", "single_turn", "--repeats", str(options.repeats or chosen["repeats"]), "-o", str(directory)]
    words += ["--temperature", str(given["temperature"]), "--top-p", str(given["top_p"]), "--seed", str(given["seed"])]
    words += [
        "--max-tokens",
        str(options.max_tokens or given["max_tokens"]),
        "-c",
        str(given["concurrency"]),
        "--json",
        "-q",
        "--no-track",
    ]
    data = options.data or chosen.get("data")
    if data is not None:
        words += ["--set", f"data={data}"]
    if options.data is not None:
        words += ["--split", chosen["split"]]
    if options.limit is not None:
        words += ["--limit", str(options.limit)]
    return [*words, "--resume"] if (directory / "run.db").exists() else words


def measured(name: str, words: Sequence[str]) -> dict[str, Any]:
    """Play a set; returns its figures at the highest number of samples per problem."""
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode > 1:  # 1: some are unscored, which the coverage says
        sys.exit(done.returncode)
    run = json.loads(done.stdout)
    at: dict[str, Any] = run["at_k"][-1] if run["at_k"] else {}
    average: dict[str, Any] = at.get("avg_at_k") or {}
    passed: dict[str, Any] = at.get("pass_at_k") or {}
    return {
        "set": name,
        "k": at.get("k", 0),
        "avg": average.get("value"),
        "standard_error": average.get("standard_error"),
        "pass": passed.get("value"),
        "problems": average.get("tasks", 0),
        "coverage": run["coverage"],
    }


def line(found: Mapping[str, Any]) -> str:
    """The figures of a set as a line of text."""
    average, error, passed = (
        "-" if found[name] is None else f"{found[name]:.4f}" for name in ("avg", "standard_error", "pass")
    )
    return (
        f"{found['set']:8} avg@{found['k']} {average} ± {error}, pass@{found['k']} {passed}; "
        f"{found['problems']} problems, coverage {found['coverage']:.3f}"
    )


def main() -> None:
    """Play every chosen set, and print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("-m", "--model", required=True, help="as `hub run -m`")
    parser.add_argument("--base-url", action="append", default=[], help="of its server; repeatable")
    parser.add_argument("-o", "--directory", required=True, help="of this checkpoint's runs")
    parser.add_argument("--data", help="a folder with DeepScaleR's test files, in place of sets by name")
    parser.add_argument("--sets", help="which, with commas between")
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--max-tokens", type=int, help="of one response, where the server holds fewer")
    parser.add_argument("--limit", type=int, help="only the first problems of each set")
    options = parser.parse_args()
    given = tomllib.loads((HERE / "evaluation.toml").read_text())
    names = None if options.sets is None else options.sets.split(",")
    figures: list[dict[str, Any]] = []
    for chosen in given["sets"]:
        if names is None or chosen["name"] in names:
            found = measured(chosen["name"], command(given, chosen, options))
            figures.append(found)
            sys.stdout.write(line(found) + "\n")
            sys.stdout.flush()
    (Path(options.directory) / "evaluation.json").write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
