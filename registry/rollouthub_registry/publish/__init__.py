"""`hub publish`: builds, checks, signs and uploads an environment.

Uses `bundle`, `check`, `install` and `client`. Begin with `publication.py`.
"""
