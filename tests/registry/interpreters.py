"""Interpreters of installed environments, made without installing: the hub of this one, and modules of their own."""

import site
import sysconfig
import venv
from pathlib import Path

from rollouthub.plugins.installed import Installation
from rollouthub.plugins.lock import LockedEnvironment

MANIFEST = """\
name = "lab/apart"
version = "0.1.0"
description = "Says what it was told."
license = "MIT"
secrets = ["PASSPORT"]

[python]
entry = "apart:Apart"
distribution = "apart"
"""
SOURCE = """\
import os, random, subprocess, sys, time
from rollouthub import Environment, EnvironmentConfig, Public, Score, Secret, Task
{imports}

class Apart(Environment[EnvironmentConfig]):
    version = "0.1.0"

    @classmethod
    def tasks(cls, config, split, seed):
        {tasks}
        for number in range(3):
            yield Task(Public(id=str(number), prompt="Say it."), Secret(answer=str(number)))

    async def verify(self, submission):
        {verify}
        return Score(reward=0.0, passed=False)
"""


def make_interpreter(folder: Path, **modules: str) -> Path:
    """A virtual environment that has these modules, and the hub; the path of its interpreter."""
    venv.EnvBuilder(with_pip=False, symlinks=True).create(folder)
    here = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
    ours = [path for path in site.getsitepackages() if Path(path).is_dir()]
    (here / "hub.pth").write_text("".join(f"import site; site.addsitedir({path!r})\n" for path in ours))
    for name, text in modules.items():
        (here / f"{name}.py").write_text(text)
    return folder / "bin" / "python"


def install_class(folder: Path, *, imports: str = "", tasks: str = "pass", verify: str = "pass") -> Installation:
    """A class that lies in an interpreter of its own, and nowhere else."""
    source = SOURCE.format(imports=imports, tasks=tasks, verify=verify)
    python = make_interpreter(folder / "venv", apart=source)
    content = folder / "content"
    content.mkdir()
    (content / "env.toml").write_text(MANIFEST)
    return Installation(
        locked=LockedEnvironment(name="lab/apart", version="0.1.0"),
        summary="",
        file=content / "env.toml",
        python=python,
        is_class=True,
        secrets=("PASSPORT",),
    )
