"""What stands in for the published images of repositories, which no registry may be there to give."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.mcp_servers.conftest import PUBLISHED, PYTHON, one_at_a_time
from tests.mcp_servers.containers import STAND_INS

ACTIVATE = """\
# Stands in for conda's.
conda() { export CONDA_DEFAULT_ENV=$2 PATH=/opt/miniconda3/envs/$2/bin:$PATH; }
"""
RUNTESTS = """\
import sys, unittest
sys.path[:0] = [".", "tests"]
assert sys.argv[1:5] == ["--verbosity", "2", "--settings=test_sqlite", "--parallel"], sys.argv
result = unittest.TextTestRunner(verbosity=2).run(unittest.defaultTestLoader.loadTestsFromNames(sys.argv[6:]))
sys.exit(not result.wasSuccessful())
"""
BIN_TEST = """\
#!/usr/bin/env python
import runpy, sys
sys.path.insert(0, ".")
assert sys.argv[1:3] == ["-C", "--verbose"], sys.argv
for path in sys.argv[3:]:
    for name, test in runpy.run_path(path).items():
        if name.startswith("test_"):
            try:
                test(); print(name, "ok")
            except AssertionError:
                print(name, "F")
"""
DOCKERFILE = f"""\
FROM {PYTHON}
WORKDIR /testbed
COPY . /testbed
RUN mkdir -p /opt/miniconda3/bin /opt/miniconda3/envs/testbed/bin && mv activate /opt/miniconda3/bin \\
 && ln -s $(command -v python3) /opt/miniconda3/envs/testbed/bin/python \\
 && mv $(command -v pytest) /opt/miniconda3/envs/testbed/bin/ \\
 && echo /testbed > $(python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/testbed.pth \\
 && rm /usr/bin/python Dockerfile && chmod +x bin/test \\
 && git init -q && git add -A && git -c user.name=a -c user.email=a@b.c commit -qm start
"""
PATCH = """\
--- a/shapes/areas.py
+++ b/shapes/areas.py
@@ -5,2 +5,2 @@
 def triangle(base, height):
-    return base * height
+    return base * height / 2
"""


def new_file(path: str, text: str) -> str:
    """A patch that makes a file, as git writes it."""
    lines = text.splitlines()
    added = "".join(f"+{line}\n" for line in lines)
    head = f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n"
    return f"{head}@@ -0,0 +1,{len(lines)} @@\n{added}"


def build(folder: Path, files: Mapping[str, str], tag: str) -> str:
    """An image of these files, built in a folder; its name."""
    import docker  # an extra, which `images` looks for

    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    client: Any = docker.from_env()
    with one_at_a_time("build"):
        client.images.build(path=str(folder), tag=tag, rm=True)
    client.close()
    return tag


@pytest.fixture(scope="session")
def published_image(images: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What stands in for every published image: a conda environment of that name, and runners called as theirs."""
    repository = STAND_INS / "repository"
    files = {str(path.relative_to(repository)): path.read_text() for path in repository.glob("*/*.py")}
    files |= {"activate": ACTIVATE, "tests/runtests.py": RUNTESTS, "bin/test": BIN_TEST, "Dockerfile": DOCKERFILE}
    files |= {"tests/shapes_tests/__init__.py": ""}
    return build(tmp_path_factory.mktemp("published"), files, PUBLISHED)
