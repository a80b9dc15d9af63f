"""The process that runs the tests. The code under test is in another sandbox, behind a proxy that passes values.

The tests cannot print to this process's stdout, which carries marked messages: calls of the code under test, whose
replies arrive on stdin, and reports of this process: first that it has started, and last the verdict. Runs in its own
sandbox, below the source of the modules it needs: standard library only, Python 3.9 or later.
"""

import builtins
import os
import sys
from types import CodeType
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:  # its source stands above this one's in the program
    from rollouthub_servers.code.values import TooLong, Unsendable, decode, encode, pack, receive

CALL, SAY = b"c", b"s"
"""Mark before each message: a call of the code under test, or a report of this process."""
SHOWN = 300


class Ended(BaseException):
    """The code under test gives no more replies. Not an `Exception`, so that tests which expect one do not pass."""


class Candidate:
    """A proxy of the function under test: a call is sent to the other sandbox, and a value or an error comes back."""

    def __init__(self, calls: BinaryIO, replies: BinaryIO) -> None:
        self._calls, self._replies = calls, replies
        self.calls = 0
        self.broken: str | None = None
        """Why the code under test gives no more replies; None while it does."""
        self.fault: str | None = None
        """Why the tests cannot be run on any code; None if they can."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.broken or self.fault:
            raise Ended
        try:
            message = pack({"args": encode(list(args)), "kwargs": encode(kwargs)})
        except (Unsendable, TooLong) as error:
            passed = str(error) or "more than a message can hold"
            self.fault = f"a test passes {passed}, which cannot be sent to the code under test"
            raise Ended from None
        self.calls += 1
        try:
            self._calls.write(CALL + message)
            self._calls.flush()
            reply = receive(self._replies)
            value = decode(reply["value"]) if "value" in reply else None
        except TooLong:
            self.broken = "it returned more than a message can hold"
        except (EOFError, OSError):
            self.broken = "its process ended"
        except Exception as error:
            self.broken = f"it returned what is no value ({type(error).__name__})"
        else:
            if "value" in reply:
                return value
            raise _error(reply)
        raise Ended


def _error(reply: dict[str, Any]) -> Exception:
    """The exception that the code under test raised: the builtin one of that name, else a new class of that name."""
    if "odd" in reply:
        return TypeError(f"the function returned {str(reply['odd'])[:SHOWN]}")
    name, text = str(reply.get("raised"))[:SHOWN], str(reply.get("text"))[:SHOWN]
    kind = getattr(builtins, name, None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        try:
            return kind(text)
        except TypeError:  # some take more than a text
            pass
    return type("".join(letter for letter in name if letter.isalnum()) or "Exception", (Exception,), {})(text)


def main() -> None:
    """Read the tests from stdin, and run them."""
    replies, said = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    request = receive(replies)
    candidate = Candidate(said, replies)
    try:
        tests = compile(request["test"], "tests.py", "exec", dont_inherit=True)
        namespace: dict[str, Any] = {"__name__": "tests"}
        exec(_compiled_prompt(request["prompt"]), namespace)
        namespace[request["entry_point"]] = candidate
    except BaseException as error:
        _say(said, {"fault": f"the prompt or the tests cannot be loaded: {type(error).__name__}: {error}"})
        return
    _say(said, {"started": True})
    _say(said, _verdict(tests, request["test"], namespace, candidate))


def _say(said: BinaryIO, message: dict[str, Any]) -> None:
    said.write(SAY + pack(message))
    said.flush()


def _verdict(tests: CodeType, source: str, namespace: dict[str, Any], candidate: Candidate) -> dict[str, Any]:
    if "random" in source or "random" in sys.modules:  # so that a test that draws numbers draws the same
        import random

        random.seed(0)
    failure = None
    try:
        exec(tests, namespace)
        namespace["check"](candidate)
    except BaseException as error:
        failure = _told(error, source)
        if candidate.calls == 0 and candidate.fault is None:
            candidate.fault = f"the tests failed before they called the function: {failure}"
    if failure is None and candidate.calls == 0:
        candidate.fault = "the tests never called the function"
    if candidate.fault is not None:
        return {"fault": candidate.fault}
    if candidate.broken is not None:
        return {"passed": False, "why": candidate.broken}
    return {"passed": failure is None, "why": failure, "calls": candidate.calls}


def _compiled_prompt(prompt: str) -> CodeType:
    """Compile the prompt's code; a function without a body gets an empty one."""
    try:
        return compile(prompt, "prompt.py", "exec", dont_inherit=True)
    except SyntaxError:
        return compile(prompt + "\n    pass\n", "prompt.py", "exec", dont_inherit=True)


def _told(error: BaseException, tests: str) -> str:
    """An error, with the line of the tests at which it occurred."""
    import traceback  # which half of all examinations can do without

    lines = tests.splitlines()
    numbers = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == "tests.py"]
    place = f"{lines[numbers[-1] - 1].strip()[:SHOWN]}: " if numbers and numbers[-1] else ""
    return f"{place}{type(error).__name__}: {error}"[: 3 * SHOWN]


if __name__ == "__main__":
    main()
