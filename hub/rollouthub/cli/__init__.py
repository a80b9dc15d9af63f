"""The command line: one folder per command, with its options in `command.py` and its work in `action.py`.

No other package imports this one. Begin with `main.py`.
"""
