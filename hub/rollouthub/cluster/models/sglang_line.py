"""The command line of an SGLang server.

Read in SGLang 0.5.23: the arguments in `sglang/srt/arg_groups/fields/`, `sglang serve` in `sglang/cli/serve.py`, and
`--config`, whose arguments are put in front of the others, in `sglang/srt/utils/server_args_config_parser.py`.
"""

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote

from rollouthub.cluster.models.engine_line import EngineLine, common_variables, unless_given
from rollouthub.cluster.models.model_spec import SERVER_KEY_VARIABLE, ModelSpec

OURS = {
    "--model-path": "the model is named before the --",
    "--model": "the model is named before the --",
    "--served-model-name": "give --name before the --",
    "--host": "give --host before the --",
    "--port": "give --port before the --",
    "--tp-size": "give --tensor-parallel before the --",
    "--tensor-parallel-size": "give --tensor-parallel before the --",
    "--tp": "give --tensor-parallel before the --",
    "--api-key": "everyone on the machine could read it; set SGLANG_API_KEY, and the servers ask for that key",
    "--config": "SGLang reads one file alone, and the hub gives it one with the key; give its settings as arguments",
}
"""Server arguments that the caller may not pass → what to do instead."""
TOOLS = "--tool-call-parser"
"""SGLang's argument without which calls of tools stay text."""


def is_on_cpus(arguments: Sequence[str]) -> bool:
    """Whether a server's arguments choose the CPU."""
    return ("--device", "cpu") in pairwise(arguments) or "--device=cpu" in arguments


def sglang_line(spec: ModelSpec, program: Path, host: str, port: int, secrets: Mapping[str, str]) -> EngineLine:
    """The command line of one server. Its key is in a file, because SGLang takes none from its environment."""
    argv = [str(program), "serve", "--model-path", spec.source, "--served-model-name", spec.name]
    argv += ["--host", host, "--port", str(port), "--enable-metrics"]
    if spec.tensor_parallel > 1:
        argv += ["--tp-size", str(spec.tensor_parallel)]
    if not spec.gpus:
        argv += unless_given(spec.arguments, "--device", "cpu")
    # A line a request, for hours.
    argv += unless_given(spec.arguments, "--log-level-http", "warning")
    key = secrets.get(SERVER_KEY_VARIABLE)
    if key is None:
        return EngineLine(argv, common_variables(spec))
    path = Path(spec.folder) / "keys" / f"{quote(spec.name, safe='')}-{port}.yaml"
    # YAML holds JSON.
    return EngineLine([*argv, "--config", str(path)], common_variables(spec), {str(path): json.dumps({"api-key": key})})
