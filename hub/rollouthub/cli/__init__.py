"""The command line: a folder a command, with its options in `command.py` and what it does in `action.py`.

Nothing imports it. Begin with `main.py`.
"""
