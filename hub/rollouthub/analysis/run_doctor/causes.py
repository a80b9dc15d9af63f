"""Finds the likely cause of a fault from its message and status, and advises what to do."""

import re
from dataclasses import dataclass

from rollouthub.analysis.run_doctor.symptom import Field


@dataclass(frozen=True)
class Cause:
    """The likely cause of a fault, and advice."""

    field: Field
    says: str
    mend: str


_BY_STATUS: dict[int, Cause] = {
    401: Cause("connection", "the server refuses the key", "set the key that the message names; try it: hub doctor -m"),
    403: Cause("connection", "the key may not use this model", "ask its owner, or take another model"),
    404: Cause("connection", "no such model, or a wrong base URL", "compare names and address: hub doctor -m MODEL"),
    429: Cause("connection", "a rate limit", "lower -c, or keep under it with --rpm and --tpm; then --resume"),
}
_BY_WORDS: tuple[tuple[str, Cause], ...] = (
    (
        r"name or service not known|getaddrinfo|nodename nor|temporary failure in name|could not resolve|\bdns\b",
        Cause("connection", "the server's name cannot be resolved (DNS)", "check --base-url and the network"),
    ),
    (
        r"certificate|\bssl\b|\btls\b",
        Cause("connection", "TLS failed", "check the address (http or https?) and the certificate"),
    ),
    (
        r"connection refused|cannot connect|connect call failed|could not be reached|unreachable",
        Cause("connection", "nothing answers at the server's address", "start the server, or mend --base-url"),
    ),
    (
        r"rate.?limit|too many requests|quota|overloaded",
        _BY_STATUS[429],
    ),
    (
        r"too many open files|emfile",
        Cause("performance", "the process may not open more files", "ulimit -n 65536, or lower -c"),
    ),
    (
        r"no space left|disk (is )?full|enospc",
        Cause("performance", "a disk is full", "make room, then --resume"),
    ),
    (
        r"out of memory|\boom\b|memoryerror|cannot allocate|killed by signal 9|exit(ed)? (code|status) 137",
        Cause("performance", "memory ran out", "lower -c, or give sandboxes and servers more memory"),
    ),
    (
        r"timed? ?out|time was over|no answer within|deadline|took longer|did not (answer|finish|end) within",
        Cause("performance", "something took longer than its deadline", "lower -c, or raise the deadline in --config"),
    ),
    (
        r"reset by peer|disconnected|connection (was )?(closed|lost)|broken pipe|unexpected eof|incomplete read",
        Cause("connection", "the connection broke in mid-call", "look at the server's log: did it restart or crash?"),
    ),
    (
        r"budget|set aside for the model",
        Cause("run", "the money set aside is spent", "raise --budget and go on with --resume"),
    ),
)
_PATTERNS = [(re.compile(pattern, re.IGNORECASE), cause) for pattern, cause in _BY_WORDS]
_SERVER = Cause("connection", "the server failed", "look at the server's log")
_BY_BOUNDARY: dict[str, Cause] = {
    "model": Cause("connection", "the model's server or its answer", "look at the server's log: hub doctor -m MODEL"),
    "environment": Cause("data", "the environment's own code raised", "its traceback is in the run's logs/"),
    "sandbox": Cause("performance", "the sandbox engine", "hub doctor says whether it answers; hub sandbox list"),
    "verifier": Cause("verifier", "the verifier raised or gave no score", "mend it, then: hub score RUN"),
    "agent": Cause("agent", "the agent's own program failed; not tried again", "look at one: hub show RUN ROLLOUT"),
    "hub": Cause("run", "the run was ended, or the hub itself broke", "go on with --resume"),
}


def cause_of(boundary: str, status: int | None, message: str) -> Cause:
    """Return the likely cause of a fault: from its HTTP status, else from its message, else from the boundary that
    broke.
    """
    if boundary == "model" and status in _BY_STATUS:
        return _BY_STATUS[status]
    # An agent's or a verifier's words are about its own world, not about ours.
    if boundary not in ("agent", "verifier"):
        for pattern, cause in _PATTERNS:
            if pattern.search(message):
                return cause
    if boundary == "model" and status is not None and status >= 500:
        return _SERVER
    return _BY_BOUNDARY.get(boundary, _BY_BOUNDARY["hub"])


_CHANGING = re.compile(r"0x[0-9a-f]+|\b[0-9a-f]{8,}\b|\d+(?:\.\d+)?|'[^']*'|\"[^\"]*\"", re.IGNORECASE)


def gist(message: str) -> str:
    """Return a message without the parts that vary between like faults: numbers, ids and quoted text."""
    return _CHANGING.sub("…", message)[:120]


def fault_key(fault: str, phase: str | None, status: int | None, message: str) -> str:
    """What faults of one cause have in common, in words: what broke, when, its HTTP status, and the gist of the
    message.
    """
    where = f" in {phase}" if phase else ""
    return f"{fault}{where}{'' if status is None else f' {status}'}: {gist(message)}"
