"""The command, files and variables of every episode's program, computed once from the settings."""

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
    """How to run a program as an agent: its command, profile, variables and files."""

    command: tuple[str, ...]
    program: str
    """The program to start: a name or a path."""
    profile: Profile | None
    env: Mapping[str, str]
    passed: Mapping[str, str] = field(repr=False)
    files: tuple[File, ...] = field(repr=False)
    """Files that are copied to the program's working folder."""

    @property
    def needs_model(self) -> bool:
        """Whether the program needs the hub's model server."""
        return self.profile is not None or any(word in text for text in self.command for word in _MODEL_WORDS)

    def at(self, program: str) -> "Recipe":
        """The same recipe with another name or path of the program."""
        return replace(self, program=program)

    def words(self, address: SeatAddress, prompt: str, home: str) -> list[str]:
        """The command line for one episode."""
        known = {**values(address, _without_nul(prompt), f"{home}/{PROMPT_FILE}", home), "program": self.program}
        if self.profile is None:
            return [self.program, *(fill(word, known) for word in self.command[1:])]
        return [fill(word, known) for word in self.command]

    def environment(self, address: SeatAddress, prompt: str, home: str) -> dict[str, str]:
        """The environment variables for one episode; those that the hub sets take precedence."""
        prompt_file, prompt = f"{home}/{PROMPT_FILE}", _without_nul(prompt)
        known = values(address, prompt, prompt_file, home)
        extra = {name: fill(text, known) for name, text in self.env.items()}
        return {**self.passed, **extra, **variables(address, prompt, prompt_file, home)}

    def home_files(self, address: SeatAddress, prompt: str, home: str) -> list[File]:
        """The files for the program's HOME."""
        known = values(address, prompt, f"{home}/{PROMPT_FILE}", home)
        own = {} if self.profile is None else self.profile.files
        filled = [File(path, fill_file(text, known).encode(), 0o600) for path, text in own.items()]
        return [*filled, File(PROMPT_FILE, prompt.encode(errors="replace"), 0o600)]


def make_recipe(config: ExternalConfig) -> Recipe:
    """Compute the recipe from the configuration.

    Raises:
        ConfigError: a file or a variable does not exist.
        UnknownNameError: there is no such profile.
    """
    passed, copied = passed_on(config.pass_env), tuple(_read(config.files))
    if config.profile is None:
        return Recipe(config.command, config.command[0], None, config.env, passed, copied)
    profile = load_profile(config.profile)
    env = {**profile.env, **config.env}
    return Recipe(profile.command, config.program or profile.program, profile, env, passed, copied)


def _read(paths: Sequence[str]) -> list[File]:
    """Read the given files and the files below given folders; a folder's files keep their path within it."""
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
    """Replace NUL characters, which arguments and variables cannot hold."""
    return text.replace("\0", "\N{SYMBOL FOR NULL}")
