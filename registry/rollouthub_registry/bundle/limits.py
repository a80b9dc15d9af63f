"""Size limits of a bundle, enforced when it is built and when it is read."""

FILE_BYTES = 64 * 2**20
"""Most bytes of one file."""
TOTAL_BYTES = 256 * 2**20
"""Most bytes of all files together."""
FILES = 10_000
PATH_BYTES = 200
"""Most bytes of a path inside the bundle, in UTF-8."""
PATH_PARTS = 16
MANIFEST_BYTES = 2**20
ARCHIVE_BYTES = TOTAL_BYTES + FILES * 1024 + 2**20
"""Most bytes of the archive, which is not compressed and so a little larger than its files."""
CHUNK_BYTES = 2**20
"""Bytes of a file that are held in memory at a time."""
