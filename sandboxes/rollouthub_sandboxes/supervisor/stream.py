"""A connected socket as a byte stream."""

import socket

import anyio
from anyio.lowlevel import cancel_shielded_checkpoint

PIECE_BYTES = 256 << 10


class SocketStream:
    """The two directions of a connected stream socket; it closes the socket when it is closed."""

    def __init__(self, connected: socket.socket) -> None:
        connected.setblocking(False)
        self._socket = connected

    async def receive(self) -> bytes:
        """The next bytes; empty at the end.

        Raises:
            OSError: the connection broke.
        """
        while True:
            await anyio.wait_readable(self._socket)
            try:
                return self._socket.recv(PIECE_BYTES)
            except BlockingIOError:
                continue

    async def send(self, data: bytes) -> None:
        """Send all of `data`.

        Raises:
            OSError: the connection broke.
        """
        view = memoryview(data)
        while view:
            try:
                view = view[self._socket.send(view) :]
            except BlockingIOError:
                await anyio.wait_writable(self._socket)

    async def send_eof(self) -> None:
        """Shut down the sending direction.

        Raises:
            OSError: the connection broke.
        """
        self._socket.shutdown(socket.SHUT_WR)

    async def aclose(self) -> None:
        """Close the socket, even while another task waits on it."""
        if self._socket.fileno() >= 0:
            anyio.notify_closing(self._socket)
            # Those who wait must be awake before the number can be somebody else's: they unregister it once more.
            await cancel_shielded_checkpoint()
            self._socket.close()
