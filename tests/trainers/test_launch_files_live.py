"""DeepScaleR's launch files, dry: every option of every launch is taken by its own system's parser and checks."""

import os
import shlex
import socket
import subprocess
import sys
import typing
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pydantic
import pytest
import typing_extensions

from rollouthub.trainers.workers.worker_settings import given_settings
from tests.examples.launched import EXAMPLE, SIZES, Call, calls, training_call, write_launch
from tests.trainers.absent import Absent
from tests.trainers.verl_set_up import tiny_model

pytestmark = [
    pytest.mark.live,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore:.*is not available"),
]
System = Callable[[str], ModuleType]


def launched(system: str, gpus: int, stage: str, folder: Path, *more: str) -> list[Call]:
    """The calls of all machines of a launch."""
    made = write_launch(system, gpus, stage, folder, *more)
    nodes = range(1 if gpus < 32 else 4 if system == "trl" else 1)
    return [call for node in nodes for call in calls(made, folder, node=node)]


def configured_verl(system: System, arguments: Sequence[str]) -> Any:
    """veRL's configuration, by hydra and its own checks."""
    hydra, checks, needs = system("hydra"), system("verl.utils.config"), system("verl.trainer.ppo.utils")
    assert tuple(arguments[:2]) == ("-m", "verl.trainer.main_ppo")
    with hydra.initialize_config_module("verl.trainer.config", version_base=None):
        config = hydra.compose("ppo_trainer", overrides=list(arguments[2:]))
    has_reference = needs.need_reference_policy(config)
    checks.validate_config(config, use_reference_policy=has_reference, use_critic=needs.need_critic(config))
    parts = config.actor_rollout_ref
    for part in (parts.rollout, parts.model, parts.actor, parts.ref.fsdp_config, config.algorithm):
        assert checks.omega_conf_to_dataclass(part)
    return config


@pytest.mark.parametrize(("gpus", "stage"), SIZES)
def test_verl_takes_its_launch(verl: ModuleType, system: System, gpus: int, stage: str, tmp_path: Path) -> None:
    model = tiny_model(system, tmp_path / "tiny")
    made = launched("verl", gpus, stage, tmp_path, "--policy", str(model))
    config = configured_verl(system, training_call(made).arguments)
    assert config.trainer.nnodes * config.trainer.n_gpus_per_node == gpus
    assert system("verl.trainer.ppo.utils").need_reference_policy(config) == (stage != "8K")
    rollout = config.actor_rollout_ref.rollout
    assert system("verl.utils.import_utils").load_class_from_fqn(rollout.agent.agent_loop_manager_class)
    (entry,) = system("omegaconf").OmegaConf.load(rollout.agent.agent_loop_config_path)
    assert given_settings(entry.run).request.environments[1] == "aime24"


def test_verl_refuses_an_option_that_it_has_not(verl: ModuleType, system: System, tmp_path: Path) -> None:
    model = tiny_model(system, tmp_path / "tiny")
    arguments = training_call(launched("verl", 8, "8K", tmp_path, "--policy", str(model))).arguments
    assert configured_verl(system, arguments)
    with pytest.raises(Exception, match="clip_ratio_hihg"):
        configured_verl(system, [*arguments, "actor_rollout_ref.actor.clip_ratio_hihg=0.28"])


def test_verl_takes_the_commands_of_its_page(verl: ModuleType, system: System) -> None:
    hydra = system("hydra")
    text = (EXAMPLE.parents[1] / "docs" / "trainers" / "verl.md").read_text()
    commands = [block.replace("\\\n", " ") for block in text.split("```") if "verl.trainer.main_ppo" in block]
    assert len(commands) == 4
    with hydra.initialize_config_module("verl.trainer.config", version_base=None):
        for command in commands:
            words = shlex.split(command.partition("\n")[2], comments=True)
            assert words[:3] == ["python", "-m", "verl.trainer.main_ppo"]
            assert hydra.compose("ppo_trainer", overrides=words[3:])


def configured_skyrl(arguments: Sequence[str]) -> Any:
    """SkyRL's configuration, by its own dataclasses and checks, as the script of the launch asks them."""
    with loaded(EXAMPLE / "entries" / "skyrl_train.py") as entry:
        return entry.read_options(arguments)


@pytest.fixture
def skyrl(system: System, monkeypatch: pytest.MonkeyPatch) -> System:
    """SkyRL's modules. It needs Python 3.12, whose TypedDict pydantic takes."""
    monkeypatch.setattr(typing, "TypedDict", typing_extensions.TypedDict)
    system("skyrl")
    return system


@pytest.mark.parametrize(("gpus", "stage"), SIZES)
def test_skyrl_takes_its_launch(skyrl: System, gpus: int, stage: str, tmp_path: Path) -> None:
    call = training_call(launched("skyrl", gpus, stage, tmp_path))
    entry, *arguments = call.arguments
    assert entry == str(EXAMPLE / "entries" / "skyrl_train.py")
    assert given_settings(call.play).request.environments[1] == "aime24"
    config = configured_skyrl(arguments)
    assert config.generator.eval_sampling_params.temperature == 1.0
    assert config.trainer.placement.policy_num_nodes * config.trainer.placement.policy_num_gpus_per_node == gpus


def test_skyrl_refuses_an_option_that_it_has_not(skyrl: System, tmp_path: Path) -> None:
    _, *arguments = training_call(launched("skyrl", 8, "8K", tmp_path)).arguments
    with pytest.raises(Exception, match="eps_clip_hihg"):
        configured_skyrl([*arguments, "trainer.algorithm.eps_clip_hihg=0.28"])


def configured_trl(arguments: Sequence[str], system: System) -> tuple[Any, Any, Any]:
    """What accelerate and TRL make of their options."""
    parser = system("accelerate.commands.launch").launch_command_parser()
    assert tuple(arguments[:2]) == ("-m", "accelerate.commands.launch")
    launching = parser.parse_args(list(arguments[2:]))
    assert launching.training_script == str(EXAMPLE / "entries" / "trl_train.py")
    with loaded(Path(launching.training_script)) as entry:
        without_gpu = [] if system("torch").cuda.is_available() else ["--use_cpu", "true"]  # else bfloat16 is refused
        config, played = entry.read_options([*launching.training_script_args, *without_gpu])
    return launching, config, played


@contextmanager
def loaded(path: Path) -> Generator[Any]:
    """A script as a module, which nothing is left of."""
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    sys.modules[path.stem] = module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        del sys.modules[path.stem]


@pytest.mark.parametrize(("gpus", "stage"), SIZES)
def test_trl_and_accelerate_take_their_launch(system: System, gpus: int, stage: str, tmp_path: Path) -> None:
    made = launched("trl", gpus, stage, tmp_path)
    learners = [call for call in made if call.program == "python"]
    assert len(learners) == (2 if gpus == 32 else 1)
    for call in learners:
        launching, config, played = configured_trl(call.arguments, system)
        assert launching.num_processes == max(1, gpus // 2)
        assert given_settings(played.play).request.environments[1] == "aime24"
        rows = config.per_device_train_batch_size * launching.num_processes
        assert rows * config.gradient_accumulation_steps == 64
        assert rows * config.steps_per_generation == 1024
        assert config.per_device_eval_batch_size * launching.num_processes % config.num_generations_eval == 0


def test_trl_refuses_an_option_that_it_has_not(system: System, tmp_path: Path) -> None:
    arguments = training_call(launched("trl", 8, "8K", tmp_path)).arguments
    configured_trl(arguments, system)
    with pytest.raises(ValueError, match="epsilon_hihg"):
        configured_trl([*arguments, "--epsilon_hihg", "0.28"], system)
    with pytest.raises(SystemExit):  # one of accelerate's own
        configured_trl([*arguments[:2], "--fsdp_verison", "2", *arguments[2:]], system)


@pytest.fixture
def nemo(checkout: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """NeMo-RL's modules, from a checkout, which is the working directory, as its launch has it."""
    monkeypatch.chdir(checkout("nemo-rl"))
    # Python 3.11, where pydantic wants the TypedDict of the package; NeMo-RL itself wants 3.13.
    monkeypatch.setattr(typing, "TypedDict", typing_extensions.TypedDict)
    for name in ("mlflow", "swanlab", "wandb"):  # loggers, which nothing here logs to
        if name not in sys.modules:
            absent = Absent(name)
            absent.__spec__ = ModuleSpec(name, None)
            monkeypatch.setitem(sys.modules, name, absent)

    def imported(module: str) -> Any:
        try:
            return import_module(module)
        except ImportError as error:
            pytest.skip(f"{module} cannot be imported ({error})")

    return imported


def configured_nemo(arguments: Sequence[str], nemo: Callable[[str], Any]) -> Any:
    """NeMo-RL's configuration, by its loader, its override parser and its models, as its script makes it."""
    configs, grpo, omegaconf = nemo("nemo_rl.utils.config"), nemo("nemo_rl.algorithms.grpo"), nemo("omegaconf")
    entry, option, path, *overrides = arguments
    assert (entry, option) == (str(EXAMPLE / "entries" / "nemo_rl_train.py"), "--config")
    configs.register_omegaconf_resolvers()
    config = configs.parse_hydra_overrides(configs.load_config(path), overrides)
    found = omegaconf.OmegaConf.to_container(config, resolve=True)
    pydantic.TypeAdapter(grpo.MasterConfig).validate_python(found)
    return grpo.MasterConfig(**found)


@pytest.mark.parametrize(("gpus", "stage"), SIZES)
def test_nemo_rl_takes_its_launch(nemo: Callable[[str], Any], gpus: int, stage: str, tmp_path: Path) -> None:
    made = launched("nemo_rl", gpus, stage, tmp_path)
    config = configured_nemo(training_call(made).arguments, nemo)
    assert nemo("nemo_rl.environments.nemo_gym").should_use_nemo_gym(config)
    assert given_settings(config.env["nemo_gym"]["rollouthub"]).request.environments[1] == "aime24"
    assert config.cluster["num_nodes"] * config.cluster["gpus_per_node"] == gpus
    parallel = config.policy["dtensor_cfg"]["tensor_parallel_size"]
    assert config.policy["train_global_batch_size"] % (gpus // parallel) == 0
    assert config.grpo.max_val_samples is None  # else its script refuses
    (converted,) = [call for call in made if any("convert_dcp_to_hf" in word for word in call.arguments)]
    script = Path(converted.arguments[0]).read_text()
    assert all(f'"{word}"' in script for word in converted.arguments if word.startswith("--"))


def test_nemo_rls_data_set_reads_the_prompts(nemo: Callable[[str], Any], tmp_path: Path) -> None:
    data = tmp_path / "sums.jsonl"
    data.write_text('{"problem": "What is 12 + 25?", "answer": "37"}\n')
    given = ("--data", str(data), "--validation-data", str(data))
    folder = write_launch("nemo_rl", 1, "8K", tmp_path, *given)
    subprocess.run([sys.executable, str(EXAMPLE / "prompts.py"), "nemo_rl", str(folder / "play.toml")], check=True)
    config = configured_nemo(training_call(calls(folder, tmp_path)).arguments, nemo)
    read = nemo("nemo_rl.data.datasets.response_datasets").load_response_dataset
    assert len(read({**config.data["default"], **config.data["validation"]}).dataset) == 16


def test_nemo_rl_refuses_an_option_that_it_has_not(nemo: Callable[[str], Any], tmp_path: Path) -> None:
    arguments = training_call(launched("nemo_rl", 8, "8K", tmp_path)).arguments
    with pytest.raises(Exception, match="ratio_clip_mxa"):
        configured_nemo([*arguments, "loss_fn.ratio_clip_mxa=0.28"], nemo)


@pytest.mark.parametrize("system_name", ["verl", "skyrl", "nemo_rl"])
def test_ray_takes_how_its_cluster_is_started(system: System, system_name: str, tmp_path: Path) -> None:
    commands = system("ray.scripts.scripts")
    folder = write_launch(system_name, 32, "8K", tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = str(listening.getsockname()[1])
        made = [call for node in (0, 1) for call in calls(folder, tmp_path, node=node, RAY_PORT=port)]
    started = [call.arguments for call in made if call.program == "ray"]
    assert [(*words, "")[0] for words in started] == ["start", "stop", "start"]
    for name, *words in started:
        assert getattr(commands, name).make_context(f"ray {name}", list(words))
    with pytest.raises(Exception, match="num-gpsu"):
        commands.start.make_context("ray start", ["--num-gpsu", "8"])


SERVE = """
import sys
from vllm.entrypoints.cli.serve import ServeSubcommand
from vllm.utils.argparse_utils import FlexibleArgumentParser
parser, serve = FlexibleArgumentParser(), ServeSubcommand()
serve.subparser_init(parser.add_subparsers(dest="subparser"))
serve.validate(parser.parse_args(sys.argv[1:]))
"""


@pytest.mark.parametrize("gpus", [8, 32])
def test_vllm_takes_how_it_is_served(gpus: int, tmp_path: Path) -> None:
    program = os.environ.get("ROLLOUTHUB_VLLM")
    if not program:
        pytest.skip("ROLLOUTHUB_VLLM names no vllm")
    python = str(Path(program).with_name("python"))
    served = [call.arguments for call in launched("trl", gpus, "24K", tmp_path) if call.program == "vllm"]
    assert len(served) == (2 if gpus == 32 else 1)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    for arguments in served:
        subprocess.run([python, "-c", SERVE, *arguments], check=True, env=environment, timeout=240)
    wrong = [python, "-c", SERVE, *served[0], "--max-modle-len", "8"]
    assert subprocess.run(wrong, check=False, env=environment, timeout=240, capture_output=True).returncode == 2
