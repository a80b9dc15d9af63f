"""Makes its results symbolic links to what the verifier compares them with, and to a reward of its own."""

import shlex

from rollouthub_registry.audit.cheats.cheat import Cheat, Cheater
from rollouthub_registry.audit.forged_verdict import written
from rollouthub_registry.check.reward_files import IN_JSON

_CODE = (".py", ".sh", ".toml", ".md", ".js", ".ts", ".Dockerfile", "Dockerfile", ".cfg", ".ini")
_GUESSES = ("/tests/expected.txt", "/tests/expected_output.txt", "/verifier/expected.txt", "/tests/answer.txt")


async def act(cheater: Cheater) -> None:
    """Link every file that the prompt names, and the folder that rewards are read from."""
    files = await cheater.task.files()
    known = [f"/{name}" for name in files if name.startswith("tests/") and not name.endswith(_CODE)]
    guesses = " ".join(shlex.quote(path) for path in [*known, *_GUESSES])
    links = "\n".join(
        f"mkdir -p \"$(dirname '{name}')\" 2>/dev/null; ln -sfn \"$target\" '{name}' 2>/dev/null"
        for name in cheater.named_files()
    )
    script = f"""\
target={shlex.quote((known or list(_GUESSES))[0])}
for g in {guesses} $(find / "$PWD" -xdev -maxdepth 3 -type f -iname '*expected*' 2>/dev/null | head -3); do
  [ -e "$g" ] && target="$g" && break
done
{links}
mkdir -p /tmp/.own
{written("/tmp/.own/reward.txt", "1.0", 0o644)}
{written("/tmp/.own/reward.json", IN_JSON, 0o644)}
rm -rf /logs/verifier 2>/dev/null; mkdir -p /logs 2>/dev/null; ln -sfn /tmp/.own /logs/verifier 2>/dev/null
true
"""
    await cheater.shell(script)


CHEAT = Cheat(
    name="linked-results",
    defect="L8",
    title="a result that is a link is not compared with what it points to",
    source="https://github.com/NVIDIA-NeMo/nemo-platform/pull/2136",
    act=act,
    needs="shell",
)
