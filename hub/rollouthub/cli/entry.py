"""The entry point of the program `hub`; handles Ctrl-C while the command line is still loading."""

import sys


def main() -> None:
    """Load the command line, and run it."""
    try:
        from rollouthub.cli.main import main as run_command_line
    except KeyboardInterrupt:
        sys.stderr.write("error: interrupted\n")
        sys.exit(130)
    run_command_line()
