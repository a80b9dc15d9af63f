"""The trainings' examples and the policy's server, given what they cannot use: one line that says so, and exit 2."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import warm

EXAMPLES = Path(__file__).parents[2] / "examples"
WITHOUT_TORCH = (
    "import runpy, sys\n"
    "for name in ('torch', 'transformers'):\n"
    "    sys.modules[name] = None\n"
    "sys.argv = sys.argv[1:]\n"
    "sys.path.insert(0, sys.argv[0].rpartition('/')[0])\n"
    "runpy.run_path(sys.argv[0], run_name='__main__')\n"
)
WITH_TRL = str(EXAMPLES / "learning" / "with_trl.py")
CALCULATOR, DEEPSCALER = str(EXAMPLES / "learning" / "calculator.py"), str(EXAMPLES / "deepscaler" / "train.py")
WRONG: dict[str, tuple[str, tuple[str, ...], str]] = {
    "calculator, no torch": (CALCULATOR, ("-o", "OUT"), "install"),
    "calculator, a variant": (CALCULATOR, ("--variant", "ppo2"), "'ppo2'"),
    "calculator, steps": (CALCULATOR, ("--steps", "0"), "at least one step"),
    "calculator, steps in words": (CALCULATOR, ("--steps", "many"), "'many'"),
    "calculator, a file": (CALCULATOR, ("-o", "FILE"), "name another with -o"),
    "calculator, another's folder": (CALCULATOR, ("-o", "FULL"), "holds something else"),
    "with TRL, no torch": (WITH_TRL, ("-o", "OUT"), "install"),
    "with TRL, steps": (WITH_TRL, ("--steps", "0"), "at least one step"),
    "with TRL, a seed": (WITH_TRL, ("--seed", "99999999999999999999"), "a seed from 0 to"),
    "with TRL, figures nowhere": (WITH_TRL, ("--figures", "/nowhere/figures.json"), "--figures /nowhere/figures.json"),
    "calculator, figures in a folder's place": (CALCULATOR, ("--figures", "/tmp"), "--figures /tmp: it is a folder"),
    "with TRL, a file": (WITH_TRL, ("-o", "FILE"), "name another with -o"),
    "with TRL, an address": (WITH_TRL, ("-o", "OUT", "--base-url", "somewhere"), "'somewhere' does not begin"),
    "deepscaler, no torch": (DEEPSCALER, ("-o", "OUT"), "install"),
    "deepscaler, a stage": (DEEPSCALER, ("--stage", "9K"), "no stage '9K'; the recipe has 8K, 16K, 24K"),
    "deepscaler, a recipe": (DEEPSCALER, ("--recipe", "/nowhere.toml"), "'/nowhere.toml' cannot be read"),
    "deepscaler, no recipe": (DEEPSCALER, ("--recipe", "FILE"), "no TOML"),
    "deepscaler, another's folder": (DEEPSCALER, ("--rehearse", "-o", "FULL"), "no training of this recipe"),
    "deepscaler, a file": (DEEPSCALER, ("--rehearse", "-o", "FILE"), "cannot be written"),
    "deepscaler, a trainer": (DEEPSCALER, ("--trainer", "nowhere:Trainer"), "--trainer 'nowhere:Trainer'"),
    "deepscaler, no class": (DEEPSCALER, ("--trainer", "json:Trainer"), "--trainer 'json:Trainer'"),
    "deepscaler, an address": (DEEPSCALER, ("--rehearse", "--base-url", "somewhere"), "'somewhere' does not begin"),
    "deepscaler, samples": (DEEPSCALER, ("--samples", "1"), "samples"),
    "deepscaler, no steps": (DEEPSCALER, ("--steps", "0"), "'0' is no number from 1 on"),
}


def assert_said(done: "subprocess.CompletedProcess[str]", words: str) -> None:
    """It ended with one line that says this, and exit 2."""
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert words in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(("script", "options", "words"), WRONG.values(), ids=list(WRONG))
def test_what_an_example_cannot_use_is_said_in_a_line(
    script: str, options: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("[[[")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "state.json").write_text(json.dumps({"mine": 1}))
    places = {"OUT": tmp_path / "out", "FILE": tmp_path / "file", "FULL": tmp_path / "full"}
    given = [str(places.get(option, option)) for option in options]
    assert_said(warm().run([script, *given], tmp_path, os.environ, 60, program=WITHOUT_TORCH), words)


SERVES_WITHOUT_TORCH = """
import runpy, sys
sys.modules["torch"] = None
runpy.run_module("rollouthub.trainers.policy", run_name="__main__")
"""
POLICY: dict[str, tuple[tuple[str, ...], str]] = {
    "a name of the network": (("lab/model",), "'lab/model' has no policy: it is no folder"),
    "a folder without a model": (("EMPTY",), "has no policy"),
    "no torch": (("MODEL",), "install"),
    "a port": (("MODEL", "--port", "99999"), "'99999' is no number from 0 to 65535"),
    "threads": (("MODEL", "--threads", "0"), "'0' is no number from 1"),
    "nothing": ((), "required: folder"),
}


@pytest.mark.parametrize(("options", "words"), POLICY.values(), ids=list(POLICY))
def test_what_the_policys_server_cannot_use(options: tuple[str, ...], words: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    places = {"EMPTY": tmp_path / "empty", "MODEL": tmp_path / "model"}
    given = [str(places.get(option, option)) for option in options]
    assert_said(warm().run(given, tmp_path, os.environ, 60, program=SERVES_WITHOUT_TORCH), words)
