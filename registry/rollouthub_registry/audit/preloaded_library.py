"""A shared library of a few hundred bytes that ends whatever loads it with status 0."""

import struct

_MACHINES = {"x86_64": 62, "aarch64": 183}
_CODE = {
    # mov eax, exit_group; xor edi, edi; syscall
    "x86_64": bytes.fromhex("b8e7000000 31ff 0f05"),
    # mov x0, 0; mov x8, exit_group; svc 0
    "aarch64": struct.pack("<III", 0xD2800000, 0xD2800BC8, 0xD4000001),
}
MACHINES = tuple(_MACHINES)
"""Processors, as `uname -m` names them."""
_HEADER, _SEGMENT, _DYNAMIC = 64, 56, 16
_LOAD, _TABLE, _STACK = 1, 2, 0x6474E551
_HASH, _STRINGS, _SYMBOLS, _STRING_BYTES, _SYMBOL_BYTES, _INIT = 4, 5, 6, 10, 11, 12


def library_that_exits(machine: str) -> bytes:
    """The library for a processor, as ELF: its initialisation ends the process before any of the program runs."""
    code = _CODE[machine].ljust(16, b"\0")
    code_at = _HEADER + 3 * _SEGMENT
    table_at = code_at + len(code)
    symbols_at = table_at + 7 * _DYNAMIC
    hash_at = symbols_at + 24
    strings_at = hash_at + 16
    entries = (
        (_INIT, code_at), (_HASH, hash_at), (_STRINGS, strings_at), (_SYMBOLS, symbols_at), (_STRING_BYTES, 1),
        (_SYMBOL_BYTES, 24), (0, 0),
    )  # fmt: skip
    size = strings_at + 1
    ident = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    header = ident + struct.pack(
        "<HHIQQQIHHHHHH", 3, _MACHINES[machine], 1, 0, _HEADER, 0, 0, _HEADER, _SEGMENT, 3, 64, 0, 0
    )
    segments = (
        struct.pack("<IIQQQQQQ", _LOAD, 7, 0, 0, 0, size, size, 0x1000)
        + struct.pack("<IIQQQQQQ", _TABLE, 6, table_at, table_at, table_at, 7 * _DYNAMIC, 7 * _DYNAMIC, 8)
        + struct.pack("<IIQQQQQQ", _STACK, 6, 0, 0, 0, 0, 0, 16)
    )
    table = b"".join(struct.pack("<qQ", *entry) for entry in entries)
    return header + segments + code + table + bytes(24) + struct.pack("<IIII", 1, 1, 0, 0) + b"\0"
