"""Which wall servers of installed environments have on this machine."""

from rollouthub.hosting.wall.wall import Wall, WallChoice
from rollouthub_sandboxes.walls.bubblewrap import bubblewrap_wall
from rollouthub_sandboxes.walls.container import container_wall


async def find_wall(choice: WallChoice) -> Wall | str:
    """The wall that is chosen, for `auto` a container, else bubblewrap; or why none of these works here."""
    problems: list[str] = []
    for kind, find in (("container", container_wall), ("bubblewrap", bubblewrap_wall)):
        if choice not in ("auto", kind):
            continue
        found = await find()
        if not isinstance(found, str):
            return found
        problems.append(found)
    return "; ".join(problems)
