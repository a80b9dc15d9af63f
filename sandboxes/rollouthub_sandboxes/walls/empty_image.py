"""The image of the wall's containers: it holds nothing but folders to mount on."""

import io
import tarfile
from functools import cache
from hashlib import sha256

from rollouthub_sandboxes.process.visible_paths import Machine

IMAGE = "rollouthub-wall"


@cache
def image_name(machine: Machine) -> str:
    """The name of the empty image for this machine: its tag is a digest of what it holds."""
    return f"{IMAGE}:{sha256(empty_image(machine)).hexdigest()[:16]}"


@cache
def empty_image(machine: Machine) -> bytes:
    """An image of no files, as a tar archive: folders to mount on, and this machine's links to folders of `/usr`."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name in ("dev", "etc", "proc", "sys", "tmp", "usr"):
            folder = tarfile.TarInfo(name)
            # Podman gives what is mounted on a folder the folder's mode, whatever its options say.
            folder.type, folder.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            archive.addfile(folder)
        for name, target in machine.links:
            link = tarfile.TarInfo(name.strip("/"))
            link.type, link.linkname = tarfile.SYMTYPE, target
            archive.addfile(link)
    return packed.getvalue()
