"""MiniWoB++: tasks on small web pages, played in Chromium, many episodes in one browser.

`miniwob_driver` and what it imports run in the foreign process, beside the browser; `importer` finds out what can be
played, and `miniwob_environment` plays it.
"""

from rollouthub_servers.miniwob.miniwob_environment import MiniWob, MiniWobConfig

__all__ = ["MiniWob", "MiniWobConfig"]
