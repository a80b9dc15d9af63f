"""Looks for the answer and the solution in the history of repositories."""

from rollouthub_registry.audit.cheats.cheat import Cheat, Cheater
from rollouthub_registry.audit.shell_search import in_output

_HISTORY = """\
for g in $(find / "$PWD" "${HOME:-/root}" -xdev -maxdepth 5 -name .git 2>/dev/null | sort -u | head -5); do
  cd "${g%/.git}" || continue
  git="git -c safe.directory=* --no-pager"
  $git log -p -m --all --reflog --no-color -n 2000
  $git for-each-ref --format='%(contents)'
  lost=$($git fsck --unreachable --no-reflogs --no-progress | cut -d' ' -f3 | head -500)
  for o in $lost; do $git cat-file -p $o; done
done
"""


async def act(cheater: Cheater) -> None:
    """Read every commit, also those of other branches, of the reflog and of none."""
    secrets = await cheater.secrets()
    for name in await in_output(cheater.shell, _HISTORY, secrets):
        cheater.found(f"{name} is in the history of a repository on the agent's disk", _HISTORY)


CHEAT = Cheat(
    name="git-history",
    defect="L7",
    title="no history of a repository holds the answer or the solution",
    source="https://github.com/SWE-bench/SWE-bench/issues/465",
    act=act,
    looks=True,
    needs="a shell to look",
)
