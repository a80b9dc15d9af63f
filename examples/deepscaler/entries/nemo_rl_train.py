"""NeMo-RL's GRPO with the hub in the place of NeMo Gym. Run it in NeMo-RL's checkout; arguments are NeMo-RL's."""

import runpy
import sys
from pathlib import Path

from rollouthub.trainers.nemo_rl import use_hub_gym

SCRIPT = Path("examples/nemo_gym/run_grpo_nemo_gym.py")


def main() -> None:
    """Put the hub in its place, and go on as NeMo-RL's own script."""
    if not SCRIPT.is_file():
        sys.stderr.write(f"{Path.cwd()} is no checkout of NeMo-RL: it has no {SCRIPT}\n")
        raise SystemExit(2)
    sys.path.insert(0, str(Path.cwd()))
    use_hub_gym()
    runpy.run_path(str(SCRIPT), run_name="__main__")


if __name__ == "__main__":
    main()
