"""Checks whether the head of a Ray cluster answers at an address, and whether it still does."""

import os

import anyio

CONNECT_SECONDS = 5.0
ASK_SECONDS = 4.0
# RFC 9113, 3.4: what a client of HTTP/2 says first; a server, and gRPC's is one, answers with its settings (type 4).
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
_SETTINGS_TYPE = 4


async def ask_head(address: str, seconds: float = CONNECT_SECONDS) -> str | None:
    """Connect to `HOST:PORT` and return None if a Ray head seems to answer there, else the problem."""
    host, _, port = address.rpartition(":")
    try:
        with anyio.fail_after(seconds):
            async with await anyio.connect_tcp(host.strip("[]"), int(port)) as stream:
                if os.environ.get("RAY_USE_TLS") == "1":
                    return None  # it listens; more is said only to those it knows
                await stream.send(_GREETING)
                answer = b""
                while len(answer) < 4:
                    answer += await stream.receive()
    except TimeoutError:
        return f"no answer within {seconds:g} s"
    except anyio.EndOfStream:
        return "it hangs up"
    except (OSError, anyio.BrokenResourceError) as error:
        return str(error) or type(error).__name__
    return None if answer[3] == _SETTINGS_TYPE else "what listens there is no Ray cluster"


async def watch_head(address: str, patience_seconds: float) -> str:
    """Ask the head every few seconds; return the problem once it has not answered for `patience_seconds`."""
    answered = anyio.current_time()
    while True:
        wrong = await ask_head(address, min(ASK_SECONDS, patience_seconds))
        if wrong is None:
            answered = anyio.current_time()
        elif anyio.current_time() - answered >= patience_seconds:
            return wrong
        await anyio.sleep(min(ASK_SECONDS, patience_seconds / 4))
