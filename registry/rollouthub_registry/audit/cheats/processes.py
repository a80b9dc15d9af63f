"""Looks for the answer in `/proc`: command lines, variables and open files of other processes."""

from rollouthub_registry.audit.cheats.cheat import Cheat, Cheater
from rollouthub_registry.audit.shell_search import in_output

_PROCESSES = """\
for p in /proc/[0-9]*; do
  case "$p" in /proc/$$|/proc/self) continue;; esac
  cat $p/cmdline $p/environ
  for f in $p/fd/*; do [ -f "$f" ] && head -c 200000 "$f"; done
done
"""


async def act(cheater: Cheater) -> None:
    """Read whatever other processes show."""
    secrets = await cheater.secrets()
    for name in await in_output(cheater.shell, _PROCESSES, secrets):
        cheater.found(f"{name} is in /proc, of a process that the agent sees", _PROCESSES)


CHEAT = Cheat(
    name="processes",
    defect="L7",
    title="no process that the agent sees holds the answer",
    source="https://github.com/PrimeIntellect-ai/verifiers/pull/1758",
    act=act,
    looks=True,
    needs="a shell to look",
)
