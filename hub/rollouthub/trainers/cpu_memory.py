"""Memory of a process that computes with torch on a CPU."""

import ctypes

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
"""The settings of glibc's `mallopt` (malloc.h)."""
_KEPT_BYTES, _GROWTH_BYTES = 2**30, 2**26


def keep_freed_memory() -> None:
    """Let this process keep the memory that it frees, up to 1 GiB, instead of asking the kernel for each large tensor.

    A small model's passes take half the CPU time with it: fresh pages cost more than what is computed in them. Where
    the C library is not glibc, nothing changes.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:  # musl and macOS have none
        set_option(_MMAP_THRESHOLD, _KEPT_BYTES)
        set_option(_TRIM_THRESHOLD, _KEPT_BYTES)
        set_option(_TOP_PAD, _GROWTH_BYTES)
