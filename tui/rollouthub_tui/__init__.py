"""`hub watch`: a terminal UI and plain-text mode of any run of this machine, live or ended.

Imports the core only. Begin with `app/command.py`, then `app/app.py`; `screens/` are made of `widgets/`.
"""
