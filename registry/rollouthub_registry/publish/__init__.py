"""`hub publish`: builds, checks, signs and uploads an environment.

Brings `bundle`, `check`, `install` and `client` together. Begin with `publication.py`.
"""
