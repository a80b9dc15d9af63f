"""What libraries of bad habits write garbage with, where their driver answers; the folder goes on their path."""

from pathlib import Path

from tests.mcp_servers.garbling.garbling import garble

__all__ = ["FOLDER", "garble"]

FOLDER = Path(__file__).parent
