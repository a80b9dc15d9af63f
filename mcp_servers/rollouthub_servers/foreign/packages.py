"""`write_packages`: the packages of an import whose source holds several environments."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from rollouthub.errors import ConfigError, HubError
from rollouthub.plugins.importers import Candidate, Identity, ImportSource, Written
from rollouthub.text import plain
from rollouthub_servers.foreign.package import package_name
from rollouthub_servers.new_folder import new_folder

FoundT = TypeVar("FoundT")
_REASON = 600
_FEW = 3


def write_packages(
    source: ImportSource,
    chosen: Mapping[str, tuple[Candidate, FoundT]],
    out: Path,
    identity: Identity,
    write: Callable[[FoundT, Path, Identity], Path],
) -> Written:
    """Write a package for each chosen candidate that runs: into `out`, or into a folder there of its id.

    `write` fills one folder and returns the path of its module. Where several were chosen, those that cannot be written
    are left out.

    Raises:
        ConfigError: no chosen candidate runs, none can be written, or several would have one name.
    """
    taken = {name: found for name, (candidate, found) in chosen.items() if candidate.runs}
    if not taken:
        why = "; ".join(f"{name}: {each.reasons[0]}" for name, (each, _) in [*chosen.items()][:_FEW])
        raise ConfigError(
            f"none of the chosen environments of {source.text!r} can be played; nothing is written{why and ': '}{why}"
        )
    if len(taken) > 1 and identity.name is not None:
        raise ConfigError(f"--name names one environment, and {len(taken)} were chosen")
    written, left_out = list[Path](), list[Candidate]()
    with new_folder(out) as partial:
        for name, found in taken.items():
            is_only = len(taken) == 1
            folder = partial if is_only else partial / name
            folder.mkdir(exist_ok=True)
            own = package_name(identity, out.resolve().name if is_only else name)
            try:
                file = write(found, folder, Identity(name=own, license=identity.license))
            except HubError as error:
                reason = " ".join(plain(str(error)).split())[-_REASON:]
                if is_only:
                    raise ConfigError(f"{name}: {reason}") from error
                left_out.append(chosen[name][0].model_copy(update={"reasons": (reason,)}))
                shutil.rmtree(folder)
                continue
            written.append(out / file.relative_to(partial))
        if not written:
            why = "; ".join(f"{each.id}: {each.reasons[0]}" for each in left_out[:_FEW])
            raise ConfigError(f"none of the {len(left_out)} chosen environments could be written: {why}")
    return Written(tuple(written), tuple(left_out))
