"""`AppRecord`: the description of an imported application, and the program that runs it."""

from functools import lru_cache
from pathlib import Path
from typing import ClassVar, TypeVar

from pydantic import JsonValue

from rollouthub.errors import ConfigError
from rollouthub.values import Frozen
from rollouthub_servers.foreign.folder_digest import digest_of_folder
from rollouthub_servers.foreign.imported_file import read_imported
from rollouthub_servers.foreign.program import ForeignProgram
from rollouthub_servers.foreign.requirements import LOCK_FILE, ForeignLock, foreign_home

CODE, BESIDE = "server", "beside"
_SHARED = (
    "rollouthub_servers.foreign.forked_serving",
    "rollouthub_servers.foreign_app.app_driver",
    "rollouthub_servers.foreign_app.asgi_client",
)
_QUIET = {
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    "MPLBACKEND": "Agg",
    "SDL_VIDEODRIVER": "dummy",
    "HF_HUB_OFFLINE": "1",
}
RecordT = TypeVar("RecordT", bound="AppRecord")


class AppRecord(Frozen):
    """The description of an imported application, stored as a file of the package; each format names the file."""

    file: ClassVar[str]
    driver: ClassVar[str]
    kind: ClassVar[str]
    """Kind of application in error messages, such as `OpenEnv environment`."""

    variables: dict[str, str] = {}
    """Environment variables of the process, as given at the import."""
    absent: tuple[str, ...] = ()
    """Modules that could not be installed; using one fails."""
    libraries: tuple[str, ...] = ()
    """Modules that the application was found to import; they are loaded once for all episodes."""
    digest: str = ""
    """Digest of the application's code and of the packages imported beside it."""

    @property
    def code(self) -> str:
        """The folder of the application's code, below `server`."""
        raise NotImplementedError

    def arguments(self, folder: Path) -> dict[str, JsonValue]:
        """Arguments of the driver."""
        raise NotImplementedError

    def program(self, data: Path, python: Path) -> ForeignProgram:
        """The program that runs the application; `data` is the folder of the import."""
        folder, beside = (data / CODE / self.code).absolute(), (data / BESIDE).absolute()
        arguments: dict[str, JsonValue] = {
            **self.arguments(folder),
            "folder": str(folder),
            "absent": list(self.absent),
            "libraries": list(self.libraries),
        }
        return ForeignProgram(
            name=f"the {self.kind} {self.code!r}",
            python=python,
            module=self.driver,
            modules=_SHARED,
            arguments=arguments,
            shown=(folder.parent,),
            path=(beside,) if beside.is_dir() else (),
            variables={**_QUIET, **self.variables},
        )

    def installed(self, data: Path) -> ForeignProgram:
        """The same, with its virtual environment made where there is none. Blocks.

        Raises:
            ConfigError: its code is not what was imported.
        """
        if self.digest != digest_of_folder(data, CODE, BESIDE):
            raise ConfigError(f"{data}: the code of {self.code} is not what was imported; import it again")
        return self.program(data, foreign_home().python(ForeignLock.read(data / LOCK_FILE).dependencies))

    def write(self, data: Path) -> None:
        """Write the record into the folder of an import."""
        (data / self.file).write_text(self.model_dump_json(indent=1), encoding="utf-8")


@lru_cache(maxsize=64)
def read_record(record: type[RecordT], data: Path) -> RecordT:
    """Read the record in the folder of an import.

    Raises:
        ConfigError: there is none, or it is damaged.
    """
    return read_imported(record, data / record.file)
