"""`HudRecord`: the description of an imported environment, stored beside its tasks, code and lock; and what runs it."""

from pathlib import Path

from rollouthub.values import Frozen
from rollouthub_servers.foreign.imported_file import read_imported
from rollouthub_servers.foreign.program import ForeignProgram
from rollouthub_servers.foreign.requirements import ForeignLock, foreign_home

RECORD, TASKS, CODE, SPLIT = "environment.json", "tasks.jsonl", "code", "test"
RELEASE = "hud==0.6.21"
"""The version of the SDK that environments run on."""
DRIVER = "rollouthub_servers.hud.hud_driver"
MODULES = (
    "rollouthub_servers.foreign.forked_serving",
    "rollouthub_servers.foreign.code_failures",
    "rollouthub_servers.foreign.local_datasets",
    "rollouthub_servers.hud.hud_world",
)


class HudRecord(Frozen):
    """One environment, described when the import loaded it."""

    name: str
    source: str
    """The file with its code, or `.` for a folder of them, below `code`."""
    rows: tuple[str, ...] = ()
    """Files of tasks below `code`."""
    count: int = 0
    absent: tuple[str, ...] = ()
    """Modules that could not be installed."""

    @classmethod
    def read(cls, data: str) -> "HudRecord":
        """The record in an imported folder.

        Raises:
            ConfigError: there is none.
        """
        return read_imported(cls, Path(data) / RECORD, "`hub import hud` writes such a folder")


def hud_program(record: HudRecord, code: Path, lock: ForeignLock) -> ForeignProgram:
    """What runs an environment, or describes all of a source; installed where it is not. Blocks."""
    return ForeignProgram(
        name=f"HUD environment {record.name!r}",
        python=foreign_home().python(lock.dependencies),
        module=DRIVER,
        modules=MODULES,
        arguments={
            "code": str(code),
            "name": record.name,
            "source": record.source,
            "rows": list(record.rows),
            "absent": list(record.absent),
        },
        path=(code,),
        variables={"HUD_TELEMETRY_ENABLED": "false", "FASTMCP_CHECK_FOR_UPDATES": "off"},
    )
