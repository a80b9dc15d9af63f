"""Fetches one commit of a Git repository as plain files; runs no code of the repository."""

import os
import shutil
from pathlib import Path
from subprocess import DEVNULL, PIPE, STDOUT

import anyio
from anyio.abc import Process

from rollouthub.errors import HubError
from rollouthub.processes import PYTHON, kill_group
from rollouthub.text import one_line
from rollouthub_registry.bundle.bundle_error import BundleRefused
from rollouthub_registry.bundle.limits import FILES, TOTAL_BYTES
from rollouthub_registry.install_flow.argument import GitArgument

SECONDS = 300.0
"""Most seconds for the whole fetch."""
PACK_BYTES = 1 << 30
"""Most bytes that a repository may send; it may hold more than the environment."""
_SAID_BYTES = 20_000
_PASSED_ON = ("PATH", "LANG", "TMPDIR", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY")
_PASSED_PREFIXES = ("SSL_CERT_", "GIT_SSL_")
# Nothing that a repository, or a template of this machine, could have run; and no program that a setting names.
_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.symlinks=true",
    "core.autocrlf=false",
    "core.longPaths=true",
    "credential.helper=",
    "fetch.fsckObjects=true",
    "fetch.recurseSubmodules=false",
    # One pack, which a limit on the size of a file bounds.
    "fetch.unpackLimit=1",
    "gc.auto=0",
    "maintenance.auto=false",
    "protocol.allow=never",
    "protocol.https.allow=always",
    "protocol.file.allow=always",
    "submodule.recurse=false",
    "http.followRedirects=initial",
)
# A small Python rather than a function between fork and exec, which threads forbid.
_BOUNDED = (
    "import os, resource, sys\n"
    "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)\n"
    "os.execvp(sys.argv[2], sys.argv[2:])\n"
)


class RepositoryFault(HubError):
    """A repository cannot be reached, or does not have what was requested."""


async def check_out(argument: GitArgument, scratch: Path) -> Path:
    """Write the files of a commit to a folder below `scratch`; returns the environment's folder in it.

    Hooks, filters and submodules are not run, and no password is asked for.

    Raises:
        BundleRefused: there is no program `git`, the commit is too large, or the folder is not in it.
        RepositoryFault: the repository cannot be reached in time, or lacks the commit.
    """
    if shutil.which("git") is None:
        raise BundleRefused(f"{argument.source} needs the program `git`, which is not here; install it")
    tree = scratch / "repository"
    try:
        with anyio.fail_after(SECONDS):
            await _git(scratch, "init", "--quiet", "--template=", str(tree))
            await _fetch(argument, tree)
            await _check_size(argument, tree)
            await _git(tree, "checkout", "--quiet", "--force", argument.commit, "--", argument.folder or ".")
    except TimeoutError as error:
        raise RepositoryFault(f"{argument.source} did not come within {SECONDS:g} s; try again") from error
    await anyio.to_thread.run_sync(shutil.rmtree, tree / ".git")
    folder = tree / argument.folder
    if not folder.resolve().is_relative_to(tree.resolve()) or not folder.is_dir():
        raise BundleRefused(f"{argument.source}: there is no folder {argument.folder!r} in this commit")
    return folder


async def _fetch(argument: GitArgument, tree: Path) -> None:
    """Fetch the commit alone if the server allows it, else all branches and tags."""
    fetch = (
        "fetch",
        "--quiet",
        "--no-tags",
        "--no-recurse-submodules",
        "--no-write-fetch-head",
    )
    try:
        await _git(tree, *fetch, "--depth=1", argument.url, argument.commit)
        return
    except RepositoryFault as error:
        first = error
    try:
        await _git(tree, *fetch, argument.url, "+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
    except RepositoryFault:
        raise first from None
    try:
        await _git(tree, "cat-file", "-e", f"{argument.commit}^{{commit}}")
    except RepositoryFault:
        raise RepositoryFault(f"{argument.url} has no commit {argument.commit} on a branch or tag") from None


async def _check_size(argument: GitArgument, tree: Path) -> None:
    below = (f"{argument.folder}/",) if argument.folder else ()
    listed = await _git(tree, "ls-tree", "-r", "-l", "-z", argument.commit, "--", *below)
    sizes = [line.split(b"\t")[0].split()[-1] for line in listed.split(b"\0") if line]
    total = sum(int(size) for size in sizes if size.isdigit())
    if len(sizes) > FILES or total > TOTAL_BYTES:
        raise BundleRefused(
            f"{argument.source} has {len(sizes):,} files of {total:,} bytes; {FILES:,} and {TOTAL_BYTES:,} are "
            "allowed; name the environment's folder: #subdirectory=FOLDER"
        )


async def _git(folder: Path, *words: str) -> bytes:
    """Run `git` and return its output; its processes are killed if the caller stops waiting."""
    settings = [word for setting in _SETTINGS for word in ("-c", setting)]
    command = ["git", *settings, *words]
    if os.name == "posix":
        command = [*PYTHON, "-I", "-S", "-c", _BOUNDED, str(PACK_BYTES), *command]
    async with await anyio.open_process(
        command, cwd=folder, env=_variables(), stdin=DEVNULL, stdout=PIPE, stderr=STDOUT, start_new_session=True
    ) as process:
        try:
            said = await _said(process)
            code = await process.wait()
        except BaseException:
            kill_group(process.pid) if os.name == "posix" else process.kill()
            raise
    if code:
        problem = one_line(" ".join(said[-_SAID_BYTES:].decode(errors="replace").split()), 600)
        raise RepositoryFault(f"`git {words[0]}` ended with {code}: {problem or 'it said nothing'}")
    return said


async def _said(process: Process) -> bytes:
    assert process.stdout is not None
    said = bytearray()
    async for chunk in process.stdout:
        # Lists of files are long; what is longer than any that is allowed is not read on.
        if len(said) < FILES * 1000:
            said += chunk
    return bytes(said)


def _variables() -> dict[str, str]:
    kept = {
        key: value
        for key, value in os.environ.items()
        if key.upper() in _PASSED_ON or key.upper().startswith(_PASSED_PREFIXES)
    }
    return {
        **kept,
        "HOME": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "true",
        "SSH_ASKPASS": "true",
        "GIT_LFS_SKIP_SMUDGE": "1",
    }
