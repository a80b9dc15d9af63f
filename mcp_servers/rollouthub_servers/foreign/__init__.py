"""Environments of other projects, played as they are: what every format shares, so that each is a small folder.

A format is a sibling folder with an importer, an environment class whose episodes ask foreign code through a
`ForeignRuntime`, and a driver, which runs in the foreign process and imports nothing of the hub but `serving`.
"""
