"""The command, files and variables of every episode, computed once from the settings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rollouthub.errors import ConfigError
from rollouthub.protocols import SeatAddress
from rollouthub.sandbox import MIB, File
from rollouthub_agents.external.config import ExternalConfig
from rollouthub_agents.external.profile import Profile, load_profile
from rollouthub_agents.external.templates import fill, fill_file
from rollouthub_agents.external.variables import passed_on, values, variables

PROMPT_FILE = "prompt.txt"
MOST_FILES_BYTES = 64 * MIB
_MODEL_WORDS = ("{llm_url}", "{model}")


@dataclass(frozen=True, slots=True)
class Recipe:
    """A command with what belongs to it."""

    command: tuple[str, ...]
    program: str
    """Its first word, as it is to be called."""
    profile: Profile | None
    env: Mapping[str, str]
    passed: Mapping[str, str] = field(repr=False)
    files: tuple[File, ...] = field(repr=False)
    """Copied to where it starts."""

    @property
    def needs_model(self) -> bool:
        """Whether it could not do without the model seam."""
        return self.profile is not None or any(word in text for text in self.command for word in _MODEL_WORDS)

    def at(self, program: str) -> "Recipe":
        """The same, with the program under another name."""
        return replace(self, program=program)

    def words(self, address: SeatAddress, prompt: str, home: str) -> list[str]:
        """The command line of an episode."""
        known = {**values(address, _without_nul(prompt), f"{home}/{PROMPT_FILE}", home), "program": self.program}
        if self.profile is None:
            return [self.program, *(fill(word, known) for word in self.command[1:])]
        return [fill(word, known) for word in self.command]

    def environment(self, address: SeatAddress, prompt: str, home: str) -> dict[str, str]:
        """The variables of an episode; an environment's own never take the place of ours."""
        prompt_file, prompt = f"{home}/{PROMPT_FILE}", _without_nul(prompt)
        known = values(address, prompt, prompt_file, home)
        extra = {name: fill(text, known) for name, text in self.env.items()}
        return {**self.passed, **extra, **variables(address, prompt, prompt_file, home)}

    def home_files(self, address: SeatAddress, prompt: str, home: str) -> list[File]:
        """What the program finds in its HOME."""
        known = values(address, prompt, f"{home}/{PROMPT_FILE}", home)
        own = {} if self.profile is None else self.profile.files
        filled = [File(path, fill_file(text, known).encode(), 0o600) for path, text in own.items()]
        return [*filled, File(PROMPT_FILE, prompt.encode(errors="replace"), 0o600)]


def make_recipe(config: ExternalConfig) -> Recipe:
    """What a configuration comes to.

    Raises:
        ConfigError: a file is missing, or a variable.
        UnknownNameError: there is no such profile.
    """
    passed, copied = passed_on(config.pass_env), tuple(_read(config.files))
    if config.profile is None:
        return Recipe(config.command, config.command[0], None, config.env, passed, copied)
    profile = load_profile(config.profile)
    env = {**profile.env, **config.env}
    return Recipe(profile.command, config.program or profile.program, profile, env, passed, copied)


def _read(paths: Sequence[str]) -> list[File]:
    """The files at and below paths, each under its own name, or its folder's."""
    found: list[File] = []
    total = 0
    for text in paths:
        path = Path(text)
        if not path.exists():
            raise ConfigError(f"files names {text!r}, which is not there")
        inside = [path] if path.is_file() else sorted(entry for entry in path.rglob("*") if entry.is_file())
        for file in inside:
            total += file.stat().st_size
            if total > MOST_FILES_BYTES:
                most = MOST_FILES_BYTES // MIB
                raise ConfigError(f"files are more than {most} MiB; put them into an image, or name them in `shows`")
            name = file.relative_to(path.parent if path.name else path)
            found.append(File(str(name), file.read_bytes(), 0o755 if file.stat().st_mode & 0o100 else 0o644))
    return found


def _without_nul(text: str) -> str:
    """No argument and no variable holds a NUL."""
    return text.replace("\0", "\N{SYMBOL FOR NULL}")
