"""`terminal`: a shell and files in a container, for tasks in the Harbor format; graded in a fresh container."""

from rollouthub_servers.terminal.config import TerminalConfig
from rollouthub_servers.terminal.terminal_environment import Terminal

__all__ = ["Terminal", "TerminalConfig"]
