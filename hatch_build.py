"""Compiles the sandbox supervisor while a wheel, or an editable install, is built."""

import platform
import runpy
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = "sandboxes/envhub_sandboxes/supervisor"
COMPILER_VERSION = ">=0.17"


class SupervisorHook(BuildHookInterface[Any]):
    """Leaves `bin/` beside the supervisor's source; what is current is not built again."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build what is absent or outdated: in a checkout for this machine, others when they are asked for."""
        folder, compilation = self._compilation()
        outdated = [name for name in self._outdated() if version != "editable" or name == platform.machine()]
        # A cache for this build alone: an isolated build brings its own compiler, at a path that is never seen again.
        with TemporaryDirectory(prefix="envhub-supervisor-") as cache:
            for architecture in outdated:
                self.app.display_info(f"compiling the sandbox supervisor for {architecture}")
                compilation["compile_program"](folder, architecture, Path(cache))

    def dependencies(self) -> list[str]:
        """The compiler, which is large, only where something is to be built."""
        return [self._compilation()[1]["COMPILER"] + COMPILER_VERSION] if self._outdated() else []

    def clean(self, versions: list[str]) -> None:
        """Remove what was built."""
        shutil.rmtree(Path(self.root, FOLDER, "bin"), ignore_errors=True)

    def _outdated(self) -> list[str]:
        folder, compilation = self._compilation()
        return [name for name in compilation["ARCHITECTURES"] if not compilation["is_current"](folder, name)]

    def _compilation(self) -> tuple[Path, dict[str, Any]]:
        """The supervisor's folder and its compilation module, from its file: nothing of ours is installed yet."""
        folder = Path(self.root, FOLDER)
        return folder, runpy.run_path(str(folder / "compilation.py"))
