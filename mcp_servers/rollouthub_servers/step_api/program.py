"""The foreign program that plays a library's games: what it imports, sees and is given."""

from collections.abc import Sequence
from pathlib import Path

from rollouthub_servers.foreign.program import ForeignProgram
from rollouthub_servers.step_api.games import Library, Render

_OWN = "rollouthub_servers.step_api"
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def step_program(
    library: Library,
    python: Path,
    *,
    modules: Sequence[str] = (),
    absent: Sequence[str] = (),
    ids: Sequence[str] = (),
    render: Render = "none",
    nltk: Path | None = None,
) -> ForeignProgram:
    """The driver with one library loaded; each session is a process of its own below it.

    The code of `ids` is loaded with it, and so once for all sessions.
    """
    variables = {**dict.fromkeys(_ONE_THREAD, "1"), "SDL_VIDEODRIVER": "dummy", "MPLBACKEND": "Agg"}
    if nltk is not None:
        variables["NLTK_DATA"] = str(nltk.absolute())
    parts = ("world", f"{library}_world", *(("spaces",) if library == "gymnasium" else ()))
    return ForeignProgram(
        name=f"the {library} library",
        python=python,
        module=f"{_OWN}.step_driver",
        modules=("rollouthub_servers.foreign.forked_serving", *(f"{_OWN}.{part}" for part in parts)),
        arguments={
            "library": library,
            "modules": list(modules),
            "absent": list(absent),
            "ids": list(ids),
            "render": render,
        },
        shown=() if nltk is None else (nltk.absolute(),),
        variables=variables,
    )
