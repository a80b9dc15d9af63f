"""Makes a patch of an agent's changes in a fresh container, with a git repository that the agent never wrote to."""

from collections.abc import Sequence

from rollouthub.errors import SandboxError
from rollouthub.sandbox import MIB, File, Sandbox
from rollouthub_servers.swe.agent_changes import bring

DIFF = "final.diff"
"""Name of the artifact that holds the patch."""
_MOST_BYTES = 4 * MIB
"""Most bytes of a patch, so that the state beside it is kept, too."""
_SECONDS = 60.0
_FOLDER = "/tmp/final-diff"
_BEGIN = f"""\
mkdir -p {_FOLDER} && git init -q
echo '* -text !diff !filter !ident !working-tree-encoding' > {_FOLDER}/.git/info/attributes
"""
_STAGE = """\
git ls-files -z | git update-index -z --remove --stdin
xargs -0 sh -c 'for each; do
    if [ -d "./$each" ] && [ ! -L "./$each" ]; then find "./$each" ! -type d -print0
    elif [ -e "./$each" ] || [ -L "./$each" ]; then printf "%s\\0" "./$each"; fi
done' stage | git update-index -z --add --replace --stdin
"""
_KEEP_TREE = f"git write-tree > {_FOLDER}/tree"
_COMPARE = (
    f"git diff-index --cached -p --binary --full-index --no-renames --no-ext-diff --no-textconv $(cat {_FOLDER}/tree)"
    f" > {_FOLDER}/{DIFF}"
)


async def difference(fresh: Sandbox, repository: str, kept: Sequence[File], removed: Sequence[str]) -> bytes:
    """The patch that makes these changes in a repository, binary files included.

    Raises:
        SandboxFileError: it is larger than 4 MiB, or the changes cannot be made.
        CommandNotStarted, SandboxError: the image has no shell or git that makes it.
    """
    top = f"{repository.rstrip('/')}/"
    paths = sorted([*removed, *(f"/{file.path}" for file in kept)])
    names = "".join(f"{path.removeprefix(top)}\0" for path in paths).encode(errors="replace")
    await _run(fresh, repository, _BEGIN + _STAGE + _KEEP_TREE, names)
    await bring(fresh, kept, removed)
    await _run(fresh, repository, _STAGE + _COMPARE, names)
    return await fresh.read_file(f"{_FOLDER}/{DIFF}", max_bytes=_MOST_BYTES)


async def _run(fresh: Sandbox, repository: str, script: str, names: bytes) -> None:
    done = await fresh.exec(
        ["/bin/sh", "-ec", script],
        cwd=repository,
        stdin=names,
        environment={"GIT_CONFIG_NOSYSTEM": "1", "HOME": _FOLDER, "GIT_WORK_TREE": repository}
        | {"GIT_DIR": f"{_FOLDER}/.git"},
        timeout_seconds=_SECONDS,
    )
    if done.exit_status != 0:
        raise SandboxError(f"git ended with {done.exit_status}: {done.stderr.text[-200:].strip()}")
