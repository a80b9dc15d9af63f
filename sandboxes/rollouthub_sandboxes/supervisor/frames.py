"""What the hub and a supervisor say to each other, over one pair of byte streams.

A frame is `u32 size`, `u8 kind`, `u32 channel`, payload; `size` counts kind, channel and payload. Integers are little
endian; a string is `u32 length` and its bytes; a list is `u32 count` and its items. A payload is at most 256 KiB
(`MAX_PAYLOAD`), that of `E` aside. The hub numbers channels, never reusing one; those of connections the supervisor
accepts have bit 31.

Hub to supervisor
    X exec      u32 timeout_ms (0: none), u32 flags, u64 keep_bytes, u32 cpu_seconds (0: none), u64 memory_bytes (0),
                u64 file_bytes (0), string user ("" : the supervisor's own), string cwd ("": its own),
                list argv, list environment ("NAME=value"; added to the supervisor's own environment)
                flags: 1 streams output (no cap, paced by credit), 2 kills what is left when the main process ends,
                4 standard input comes in `I` frames (else it is empty)
    I input     bytes for standard input (exec), a file being written, or a forwarded connection; empty: end of input
    A credit    u32 bytes of output the hub has taken (streaming execs, reads, listings, connections)
    K kill      u8 signal; 0 kills the whole tree, after which `E` follows; else it is sent to the process group. On a
                channel of another kind it gives that up, unanswered: a half-written file goes, a connection is closed
    Z stop      kill every process but the supervisor itself; answered by `e` with the number killed
    R read      u64 max_bytes, u32 flags (1: no link anywhere in the path), string path; answered by `d`…, then `e`
    P write     u32 mode, string user, string path; then `I` frames; answered by `e`. Missing folders are made. The
                bytes go to a new file beside it, which then takes its name, so that a link is replaced, not followed
    L list      u32 flags (1: recursive), u32 max_entries, string path; answered by `d`…, then `e`. The `d` payloads
                joined are entries: u8 kind (0 file, 1 directory, 2 symlink, 3 other), u32 mode, u64 bytes, string path
                (below the asked one; "" for itself)
    F listen    u16 port on 127.0.0.1; answered by `e`; every connection then announces itself with `o`
    C connect   u16 port on 127.0.0.1; answered by `i` of 0 bytes once connected, or by `f`; then `I` and `d` frames, of
                which an empty one ends its direction
    T ttl       u32 seconds from now after which the supervisor ends by itself; answered by `e`
    S stats     answered by `s`
    Q quit      end, and everything with it

Supervisor to hub
    h hello     u32 version, u32 pid, string architecture; the first frame
    d output    bytes of standard output, of a file, a listing or a connection
    D errors    bytes of standard error
    i credit    u32 bytes of input that were taken in; for an exec that streams, one of 0 bytes as soon as its program
                has started (after execve) and before its output, so that the hub tells a start from `f`
    E ended     i32 status (exit status, negative for a signal), u32 flags, u64 wall_us, u64 cpu_us, u32 survivors,
                u64 dropped stdout bytes, u64 dropped stderr bytes, string stdout tail, string stderr tail
                flags: 1 timed out, 2 the kernel killed a process of this sandbox for memory meanwhile, 4 killed on
                request, 8 something inside killed the command's keeper, 16 processes could not be killed,
                32 it reached its CPU limit
    e done      u64 a number (bytes read or written, entries listed, processes killed)
    f failed    u32 errno, string what was tried; the channel is over
    o accepted  u32 the listening channel; on a new channel of its own; an empty `d` ends its direction
    s stats     u64 memory bytes, u64 kernel kills for memory, u32 processes

Output of an exec that does not stream: `keep_bytes` per stream; its first half is sent as it comes, the last half is
kept in a ring and travels in `E`. Windows: of input, and of paced output, at most 256 KiB (`WINDOW`) are under way per
channel and direction; an output credit covers `d` and `D` together.

When its input ends the supervisor kills everything and ends, and so it does when its time to live is over.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

VERSION = 1
MAX_PAYLOAD = WINDOW = 256 << 10
HEADER = struct.Struct("<IBI")
ACCEPTED = 1 << 31

STREAMS, KILLS_LEFTOVERS, HAS_INPUT = 1, 2, 4
TIMED_OUT, OUT_OF_MEMORY, KILLED, KEEPER_KILLED, UNKILLABLE, CPU_LIMIT = 1, 2, 4, 8, 16, 32
NO_LINKS, RECURSIVE = 1, 1
KINDS: tuple[Literal["file", "directory", "symlink", "other"], ...] = ("file", "directory", "symlink", "other")

_ENDED = struct.Struct("<iIQQIQQ")


def frame(kind: str, channel: int, payload: bytes = b"") -> bytes:
    """Encode one frame."""
    return HEADER.pack(len(payload) + 5, ord(kind), channel) + payload


def string(value: str | bytes) -> bytes:
    """Encode a string for a payload."""
    data = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
    return struct.pack("<I", len(data)) + data


def strings(values: Iterable[str]) -> bytes:
    """Encode a list of strings for a payload."""
    items = [string(value) for value in values]
    return struct.pack("<I", len(items)) + b"".join(items)


@dataclass(frozen=True, slots=True)
class Ended:
    """The fields of an `E` frame."""

    status: int
    flags: int
    wall_us: int
    cpu_us: int
    survivors: int
    dropped_stdout: int
    dropped_stderr: int
    stdout_tail: bytes
    stderr_tail: bytes


def read_ended(payload: bytes) -> Ended:
    """Decode the payload of an `E` frame.

    Raises:
        ValueError: the frame is malformed.
    """
    try:
        status, flags, wall_us, cpu_us, survivors, dropped_out, dropped_err = _ENDED.unpack_from(payload)
        stdout_tail, at = read_string(payload, _ENDED.size)
        stderr_tail, _ = read_string(payload, at)
    except struct.error as error:
        raise ValueError(f"a supervisor's end of {len(payload)} bytes cannot be read: {error}") from error
    return Ended(status, flags, wall_us, cpu_us, survivors, dropped_out, dropped_err, stdout_tail, stderr_tail)


def read_string(payload: bytes, at: int) -> tuple[bytes, int]:
    """Decode the string at an offset; return it and the offset after it.

    Raises:
        struct.error: the payload is too short.
    """
    (length,) = struct.unpack_from("<I", payload, at)
    start = at + 4
    if start + length > len(payload):
        raise struct.error(f"a string of {length} bytes ends beyond its frame")
    return payload[start : start + length], start + length
