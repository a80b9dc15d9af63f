"""Size limits of a bundle, enforced when it is built and when it is read."""

FILE_BYTES = 64 * 2**20
"""Of one file."""
TOTAL_BYTES = 256 * 2**20
"""Of all files together."""
FILES = 10_000
PATH_BYTES = 200
"""Of one path inside the bundle, in UTF-8."""
PATH_PARTS = 16
MANIFEST_BYTES = 2**20
ARCHIVE_BYTES = TOTAL_BYTES + FILES * 1024 + 2**20
"""Of the whole archive: nothing in it is compressed, so it is no smaller than what it holds, and a little larger."""
CHUNK_BYTES = 2**20
"""How much of a file is held at a time."""
