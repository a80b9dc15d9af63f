"""The games of an imported package, and the library that plays them."""

from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from rollouthub.values import Frozen
from rollouthub_servers.foreign.imported_file import read_imported

GAMES_FILE = "games.json"
NLTK_FOLDER = "nltk_data"
Library = Literal["gymnasium", "textarena", "gem", "miniwob"]
Render = Literal["none", "text", "picture"]


class KnownGame(Frozen):
    """One id of a library's registry."""

    id: str
    prompt: str
    players: int = 1
    actions: dict[str, int] = {}
    """Tool name → the action it performs; empty where the only tool is `step`."""
    arguments: dict[str, Any] = {}
    """Arguments of `step`: name → JSON schema."""
    unpromised: tuple[str, ...] = ()


class Catalogue(Frozen):
    """The content of a package's `games.json`."""

    library: Library
    players: int
    """Number of seats of every game in the package."""
    modules: tuple[str, ...] = ()
    """Modules that register ids when they are imported."""
    absent: tuple[str, ...] = ()
    """Modules that could not be installed; importing from one fails where it is used."""
    games: tuple[KnownGame, ...]

    def game(self, id: str) -> KnownGame:
        """Return the game of an id that a task names."""
        return next(game for game in self.games if game.id == id)


@lru_cache(maxsize=32)
def read_catalogue(folder: Path) -> Catalogue:
    """Read the catalogue in a package's folder.

    Raises:
        ConfigError: there is none, or it is damaged.
    """
    return read_imported(Catalogue, folder / GAMES_FILE)
