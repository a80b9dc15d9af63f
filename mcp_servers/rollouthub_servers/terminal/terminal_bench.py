"""`TerminalBenchImporter`: converts tasks of Terminal-Bench 1 to Harbor tasks."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from pydantic import JsonValue

from rollouthub.errors import ConfigError, DataError
from rollouthub.plugins.importers import Candidate, ForeignFormat, Identity, ImportSource, Note, silent
from rollouthub_servers.terminal.harbor.dataset import OLD_FILE, folders_with
from rollouthub_servers.terminal.harbor.old_task import NotConverted, convert
from rollouthub_servers.terminal.importer import HarborImporter


class TerminalBenchImporter:
    """Imports tasks of Terminal-Bench 1."""

    environment = None
    about = ForeignFormat(
        summary="Tasks of Terminal-Bench 1, written as Harbor tasks",
        item="task",
        sources={"folder": f"a task, or a folder that holds several, each with its {OLD_FILE}"},
        unpromised=(
            *HarborImporter.about.unpromised,
            "the verdict of Terminal-Bench's own parser: a task is solved when its tests' script ends with 0",
        ),
    )

    def look(self, source: ImportSource, settings: Mapping[str, JsonValue], note: Note = silent) -> Sequence[Candidate]:
        """List every task below a folder."""
        with _converted(source) as (folder, refused):
            found = HarborImporter().look(folder, settings, note) if len(refused) < _count(source) else ()
        return sorted((*found, *refused), key=lambda each: each.id)

    def write(
        self,
        source: ImportSource,
        chosen: Sequence[str],
        settings: Mapping[str, JsonValue],
        out: Path,
        identity: Identity,
        note: Note = silent,
    ) -> Sequence[Path]:
        """Convert the chosen runnable tasks to one environment; on failure nothing is written."""
        with _converted(source) as (folder, refused):
            if len(refused) == _count(source):
                raise ConfigError(f"none of the tasks in {source.text!r} can be run, so there is nothing to write")
            return HarborImporter().write(folder, chosen, settings, out, identity, note)


def _count(source: ImportSource) -> int:
    return len(folders_with(source.folder.resolve(), OLD_FILE))


@contextmanager
def _converted(source: ImportSource) -> Generator[tuple[ImportSource, list[Candidate]]]:
    """A temporary folder with the converted tasks, and the tasks that cannot be converted, with reasons.

    Raises:
        ConfigError: there is no task.
    """
    found = folders_with(source.folder.resolve(), OLD_FILE)
    if not found:
        raise ConfigError(f"neither {source.text!r} nor a folder below it has a {OLD_FILE}")
    refused: list[Candidate] = []
    with TemporaryDirectory(prefix="rollouthub-") as temporary:
        folder = Path(temporary) / source.name
        folder.mkdir()
        for task_id, place in found:
            try:
                convert(place, folder / task_id)
            except NotConverted as error:
                refused.append(Candidate(id=task_id, reasons=tuple(map(str, error.args))))
            except DataError as error:
                refused.append(Candidate(id=task_id, reasons=(str(error).replace(f"{place}/", ""),)))
        yield ImportSource(str(folder), "folder"), refused
