"""Facts on published data sets: the image of a row, and how its repository's tests are run.

Taken from the SWE-bench package (MIT, https://github.com/SWE-bench/SWE-bench) and from SWE-Gym's fork of it, and from
SWE-smith (MIT) and R2E-Gym: the names of images, the environment in them, and a command for each repository.
"""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Runner = Literal["pytest", "plain", "django", "sympy", "outcomes"]
"""How tests are named, run and reported."""

CONDA = "/opt/miniconda3"
ACTIVATE = f"source {CONDA}/bin/activate && conda activate testbed || exit 127"
VARIABLES = {
    "PATH": f"{CONDA}/envs/testbed/bin:{CONDA}/condabin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "CONDA_DEFAULT_ENV": "testbed",
    "CONDA_PREFIX": f"{CONDA}/envs/testbed",
}
"""The variables that activating the conda environment sets, for the agent's commands."""
_USUAL = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
R2E_VARIABLES = {
    "PATH": f"/testbed/.venv/bin:/root/.venv/bin:/root/.local/bin:/root/.cargo/bin:{_USUAL}",
    "VIRTUAL_ENV": "/testbed/.venv",
}
"""The variables of R2E-Gym's virtual environment."""
REBENCH_VARIABLES = {
    "PATH": f"{CONDA}/envs/testbed/bin:{CONDA}/bin:/opt/conda/envs/testbed/bin:/opt/conda/bin:{_USUAL}"
}
"""The variables of the second edition of SWE-rebench, whose images keep Python in different places."""
_LOCALE = "export LANG=en_US.UTF-8 LC_ALL=en_US.UTF-8 LANGUAGE=en_US:en PYTHONIOENCODING=utf8"
_MAKE_LOCALE = f"sed -i '/en_US.UTF-8/s/^# //g' /etc/locale.gen && locale-gen\n{_LOCALE}"
_DJANGO = "./tests/runtests.py --verbosity 2 --settings=test_sqlite --parallel 1"
_SYMPY = "PYTHONWARNINGS=ignore::UserWarning,ignore::SyntaxWarning bin/test -C --verbose"
_PYTEST = "pytest -rA"
_NEW_FILE = re.compile(r"^diff --git a/.* b/(.*)$", re.MULTILINE)
_NO_TESTS = (".json", ".png", "csv", ".txt", ".md", ".jpg", ".jpeg", ".pkl", ".yml", ".yaml", ".toml")
_MYPY_CASE = re.compile(r"\[case ([^\]]+)\]")


@dataclass(frozen=True)
class Published:
    """How the tests of a published row are run."""

    image: str
    command: str
    runner: Runner = "pytest"
    prelude: str = ACTIVATE
    """Shell code that bash runs before the command."""
    files: tuple[str, ...] = ()
    """Arguments of the command, if they are not the tests' files."""


_SWE_BENCH: Mapping[str, tuple[str, Runner]] = {
    "astropy/astropy": (_PYTEST, "pytest"),
    "django/django": (_DJANGO, "django"),
    "matplotlib/matplotlib": (_PYTEST, "pytest"),
    "mwaskom/seaborn": ("pytest --no-header -rA", "pytest"),
    "pallets/flask": (_PYTEST, "pytest"),
    "psf/requests": (_PYTEST, "pytest"),
    "pydata/xarray": (_PYTEST, "pytest"),
    "pylint-dev/pylint": (_PYTEST, "pytest"),
    "pytest-dev/pytest": (_PYTEST, "pytest"),
    "scikit-learn/scikit-learn": (_PYTEST, "pytest"),
    "sphinx-doc/sphinx": ("tox --current-env -epy39 -v --", "pytest"),
    "sympy/sympy": (_SYMPY, "sympy"),
}
_SWE_GYM: Mapping[str, str] = {
    "Project-MONAI/MONAI": _PYTEST,
    "bokeh/bokeh": "pytest -rA -n0",
    "conan-io/conan": "pytest -n0 -rA",
    "dask/dask": "pytest -n0 -rA --color=no",
    "facebookresearch/hydra": "pytest -rA --tb=long",
    "getmoto/moto": "pytest -n0 -rA",
    "iterative/dvc": _PYTEST,
    "modin-project/modin": "pytest -n0 -rA",
    "pandas-dev/pandas": "pytest -rA --tb=long",
    "pydantic/pydantic": "pytest -rA --tb=short -vv -o console_output_style=classic --no-header",
    "python/mypy": "pytest -n0 -rA",
}
_SMITH = "pytest --disable-warnings --color=no --tb=no --verbose"
_SWE_SMITH: Mapping[str, str] = {
    "jax-ml/jax": f"{_SMITH} -n auto",
    "mido/mido": f"{_SMITH} -rs -c /dev/null",
    "paramiko/paramiko": "pytest -rA --color=no --disable-warnings",
    "pydantic/pydantic": f"/root/.local/bin/uv run {_SMITH}",
    "python/mypy": "pytest --color=no -rA",
}


def published(repository: str, instance_id: str, version: str, test_patch: str) -> Published | None:
    """How to run a row's tests, by its repository; None if the repository is in neither data set."""
    if repository in _SWE_BENCH:
        command, runner = _SWE_BENCH[repository]
        image = f"swebench/sweb.eval.x86_64.{instance_id.lower().replace('__', '_1776_')}:latest"
        if runner == "django":
            command = "./tests/runtests.py --verbosity 2" if version == "1.9" else command
            return Published(image, command, runner, _django_prelude(version), django_labels(test_patch))
        return Published(image, command, runner, files=test_paths(test_patch) if runner == "sympy" else ())
    if repository in _SWE_GYM:
        image = f"xingyaoww/sweb.eval.x86_64.{instance_id.lower().replace('__', '_s_')}:latest"
        command, prelude = _SWE_GYM[repository], ACTIVATE
        if repository == "conan-io/conan":
            prelude += "\nexport PYTHONPATH=${PYTHONPATH:-}:$(pwd)"
        if repository == "python/mypy" and (cases := _MYPY_CASE.findall(test_patch)):
            command += f" -k '{' or '.join(dict.fromkeys(cases))}'"
        return Published(image, command, prelude=prelude)
    return None


def smith_command(repository: str) -> str:
    """How to run the tests of a repository of SWE-smith, which it names `OWNER__NAME.COMMIT`."""
    return _SWE_SMITH.get(repository.partition(".")[0].replace("__", "/", 1), _SMITH)


def smith_image(name: str) -> str:
    """An image of SWE-smith, which older rows name without its namespace."""
    name = name.replace("__", "_1776_")
    return name if "/" in name else f"jyangballin/{name}"


def exports(variables: Mapping[str, str]) -> str:
    """Shell code that sets variables."""
    return "\n".join(f"export {name}={shlex.quote(value)}" for name, value in variables.items())


def test_paths(test_patch: str) -> tuple[str, ...]:
    """The test files that a patch changes."""
    return tuple(path for path in _NEW_FILE.findall(test_patch) if not path.endswith(_NO_TESTS))


def django_labels(test_patch: str) -> tuple[str, ...]:
    """The test files that a patch changes, as labels of Django's runner."""
    paths = (path.removesuffix(".py").removeprefix("tests/") for path in test_paths(test_patch))
    return tuple(path.replace("/", ".") for path in paths)


def _django_prelude(version: str) -> str:
    number: Any = tuple(int(part) for part in version.split(".") if part.isdecimal())
    if (1, 7) <= number < (3, 0):
        return f"{ACTIVATE}\n{_LOCALE}"
    return f"{ACTIVATE}\n{_MAKE_LOCALE}" if (3, 0) <= number < (4, 0) else ACTIVATE
