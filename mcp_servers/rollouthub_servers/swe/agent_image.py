"""Makes the image of the agent's container where the published one holds tests or the answer, or not yet the bug.

Its git history begins with the repository as the agent finds it: an older history would hold the repaired code.
"""

import hashlib
import os
import shlex
from pathlib import Path

from rollouthub.sandbox import Build
from rollouthub_servers.swe.swe_row import SweSecret

_WORK = "/tmp/swe-prepare"
_DOCKERFILE = """\
FROM {image}
USER root
COPY . {work}/
RUN /bin/sh -e {work}/prepare.sh && rm -rf {work}
"""
_PREPARE = """\
cd {repository}
git() {{ command git -c safe.directory='*' "$@"; }}
if [ -s {work}/bug.patch ]; then
    git apply --whitespace=nowarn {work}/bug.patch || patch -p1 --batch --no-backup-if-mismatch < {work}/bug.patch
fi
rm -rf -- {withheld}
find . -path ./.venv -prune -o -name __pycache__ -prune -exec rm -rf {{}} +
if [ -e .git ]; then
    tag=$(git describe --tags --abbrev=0 2>/dev/null || true)
    cp .git/info/exclude {work}/exclude 2>/dev/null || true
    rm -rf .git
    git init -q .
    mkdir -p .git/info
    cat {work}/exclude > .git/info/exclude 2>/dev/null || true
    echo /.venv >> .git/info/exclude
    git add -A
    git -c user.name=swe -c user.email=swe@localhost -c commit.gpgsign=false commit -q --no-verify --allow-empty -m base
    [ -z "$tag" ] || git tag -- "$tag"
fi
"""


def agent_image(secret: SweSecret) -> str | Build:
    """The image of the agent's container: the row's own, or one made from it."""
    if not (secret.bug or secret.withheld or secret.tests_folder):
        return secret.image
    assert isinstance(secret.image, str), "only published images hold what is withheld"
    withheld = [*secret.withheld, *([f"/{secret.tests_folder}"] if secret.tests_folder else [])]
    prepare = _PREPARE.format(
        repository=shlex.quote(secret.repository),
        withheld=" ".join(shlex.quote(path) for path in withheld),
        work=_WORK,
    )
    files = {
        "Dockerfile": _DOCKERFILE.format(image=secret.image, work=_WORK),
        ".dockerignore": "Dockerfile\n",
        "prepare.sh": prepare,
        "bug.patch": secret.bug,
    }
    return Build(context=_folder(files), network="none")


def _folder(files: dict[str, str]) -> Path:
    """A folder with these files, named by their content and made once."""
    digest = hashlib.sha256(repr(sorted(files.items())).encode(errors="replace")).hexdigest()[:32]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "rollouthub" / "swe" / digest
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # the patch of the bug tells the answer
    for name, text in files.items():
        data = text.encode(errors="replace")
        if not (folder / name).is_file() or (folder / name).read_bytes() != data:
            part = folder / f".{name}.{os.getpid()}"
            part.write_bytes(data)
            part.replace(folder / name)
    return folder
