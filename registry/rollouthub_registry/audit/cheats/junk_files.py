"""Writes a letter into every file that the prompt names."""

from rollouthub_registry.audit.cheats.cheat import Cheat, Cheater, ProbeSkipped, writing_junk


async def act(cheater: Cheater) -> None:
    """Write them."""
    files = cheater.named_files()
    if not files:
        raise ProbeSkipped("the prompt names no file")
    await cheater.shell(writing_junk(files))


CHEAT = Cheat(
    name="junk-files",
    defect="floor",
    title="files that hold nothing of worth are not paid",
    source="arXiv:2606.08960 (output spoofing)",
    act=act,
    needs="shell",
    is_worthless=True,
)
