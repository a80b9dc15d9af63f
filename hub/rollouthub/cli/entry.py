"""Where the program `hub` begins: before anything that takes long to load, so that Ctrl-C is understood at once."""

import sys


def main() -> None:
    """Load the command line, and run it."""
    try:
        from rollouthub.cli.main import main as run_command_line
    except KeyboardInterrupt:
        sys.stderr.write("error: interrupted\n")
        sys.exit(130)
    run_command_line()
