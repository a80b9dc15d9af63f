"""Tiny wheels, folders that offer them, and bundles to install from them: nothing here needs a network."""

import zipfile
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import requires, version
from pathlib import Path

from packaging.requirements import Requirement

from rollouthub.plugins.installed import Installation
from rollouthub.plugins.lock import LockedEnvironment
from rollouthub_registry.bundle.bundle import Bundle, build_bundle
from rollouthub_registry.install.install_home import InstallHome
from rollouthub_registry.install.installation import Origin, install
from rollouthub_registry.install.installer import Installer
from rollouthub_registry.install.pip_installer import Pip
from rollouthub_registry.install.uv_installer import Uv

SERVER = """\
name = "acme/words"
version = "{version}"
description = "Words."
secrets = ["WORDS_KEY"]

[server]
command = ["{{python}}", "-m", "words"]
requirements = {requirements}

[tasks]
test = "tasks.jsonl"

[verifier]
url = "https://example.org/v1/verify"
token_variable = "JUDGE_TOKEN"
"""
CLASS = """\
name = "acme/words"
version = "1.2.0"
description = "Words."

[python]
entry = "words:Words"
distribution = "{distribution}"
extras = ["more"]

[sandbox]
images = ["python@sha256:{zeros}"]
"""
RAISED = "raise SystemExit('nothing of an environment runs while it is installed')\n"
ORIGIN = Origin("file:///registry")


def write_wheel(
    folder: Path, name: str, number: str, needs: Sequence[str] = (), files: Mapping[str, str] | None = None
) -> Path:
    """A wheel whose module must not be imported."""
    info = f"{name}-{number}.dist-info"
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {name}",
        f"Version: {number}",
        *(f"Requires-Dist: {each}" for each in needs),
    ]
    content = {
        f"{name}/__init__.py": RAISED,
        f"{info}/METADATA": "\n".join([*lines, ""]),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        **(files or {}),
    }
    record = "".join(f"{path},,\n" for path in (*content, f"{info}/RECORD"))
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}-{number}-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as archive:
        for path, text in {**content, f"{info}/RECORD": record}.items():
            archive.writestr(path, text)
    return file


def write_hub_needs(links: Path) -> None:
    """A wheel for everything the hub needs, under its name and version alone."""
    for text in requires("rollouthub") or ():
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": "docker"}):
            write_wheel(links, requirement.name.replace("-", "_"), version(requirement.name))


def server_bundle(folder: Path, requirements: Sequence[str] = (), number: str = "1.2.0") -> Bundle:
    """A declared server without a wheel."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = str(list(requirements)).replace("'", '"')
    (folder / "env.toml").write_text(SERVER.format(version=number, requirements=wanted))
    (folder / "tasks.jsonl").write_text('{"prompt": "Say déjà vu."}\n')
    (folder / "verify.py").write_text(RAISED)
    return build_bundle(folder, folder.parent / "bundles")


def class_bundle(
    folder: Path, needs: Sequence[str] = (), files: Mapping[str, str] | None = None, distribution: str = "words"
) -> Bundle:
    """A class in a wheel."""
    write_wheel(folder / "wheel", distribution, "1.2.0", needs, files)
    (folder / "env.toml").write_text(CLASS.format(distribution=distribution, zeros="0" * 64))
    return build_bundle(folder, folder.parent / "bundles")


class World:
    """A user with a home of installed environments, and a folder of wheels that stands for every index."""

    def __init__(self, folder: Path, tool: str, uv: Path, pip: Path) -> None:
        self.home, self.links = InstallHome(folder / "home"), folder / "links"
        self.links.mkdir()
        self.environ = {
            "HOME": str(folder),
            "PATH": "/usr/bin:/bin",
            "UV_FIND_LINKS": str(self.links),
            "UV_DEFAULT_INDEX": (folder / "no-index").as_uri(),
            "PIP_FIND_LINKS": str(self.links),
            "PIP_NO_INDEX": "1",
            "XDG_CACHE_HOME": str(folder / "cache"),
        }
        self.installer: Installer = Uv(uv, self.environ) if tool == "uv" else Pip(pip, self.environ)

    def install(
        self,
        bundle: Bundle,
        origin: Origin = ORIGIN,
        locked: LockedEnvironment | None = None,
        replace: bool = False,
        note: Callable[[str], None] = lambda _: None,
    ) -> Installation:
        """Install a bundle with this world's installer."""
        return install(
            bundle,
            origin,
            self.home,
            locked=locked,
            replace=replace,
            note=note,
            installer=self.installer,
            environ=self.environ,
        )

    @property
    def left(self) -> list[str]:
        """Everything in the home but its lock."""
        root = self.home.root
        return sorted(str(each.relative_to(root)) for each in root.rglob("*") if each.name != ".lock")
