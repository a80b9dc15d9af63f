"""Detects files and text that look like secrets, since everything published stays public."""

import re
from fnmatch import fnmatchcase

from rollouthub_registry.bundle.bundle_error import BundleRefused

_NAMES = (
    ".dockerconfigjson",
    ".env",
    ".env.*",
    ".git-credentials",
    ".htpasswd",
    ".netrc",
    ".npmrc",
    ".pypirc",
    "*.jks",
    "*.p12",
    "*.pem",
    "*.pfx",
    "*.ppk",
    "_netrc",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "id_rsa",
)
_HARMLESS = (".env.example", ".env.sample", ".env.template")
_LONGEST = 256
"""Bytes of the longest match; this many of each chunk are scanned again together with the next."""

# Each begins with a literal of its own, which is looked for first: a search for bytes is far quicker than a pattern.
_CONTENT = {
    b"-----BEGIN ": ("a private key", rb"-----BEGIN (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----"),
    b"AKIA": ("an AWS access key", rb"(?<![A-Za-z0-9])AKIA[A-Z0-9]{16}(?![A-Za-z0-9])(?<!EXAMPLE)"),
    b"sk-": ("a model provider's key", rb"(?<![A-Za-z0-9-])sk-(?=[\w-]{0,100}\d)(?:[a-z0-9]{1,12}-){0,3}\w{24,}"),
    b"github_pat_": ("a GitHub token", rb"(?<!\w)github_pat_\w{60,}"),
    b"ghp_": ("a GitHub token", rb"(?<!\w)ghp_[A-Za-z0-9]{36}"),
    b"hf_": ("a Hugging Face token", rb"(?<!\w)hf_[A-Za-z0-9]{34}(?!\w)"),
    b"AIza": ("a Google API key", rb"(?<!\w)AIza[\w-]{35}(?![\w-])"),
    b"xox": ("a Slack token", rb"(?<!\w)xox[abprs]-[0-9A-Za-z-]{20,}"),
}
_PATTERNS = {marker: (what, re.compile(pattern)) for marker, (what, pattern) in _CONTENT.items()}
_ADVICE = "remove it, or name it in .hubignore; if it was ever published, revoke it"


def check_name(path: str) -> None:
    """Check that a file's name is not typical of files that hold secrets.

    Raises:
        BundleRefused: the name is typical of secrets.
    """
    name = path.rpartition("/")[2].casefold()
    if name not in _HARMLESS and any(fnmatchcase(name, pattern) for pattern in _NAMES):
        raise BundleRefused(f"{path!r} is a file that holds secrets; {_ADVICE}")


class SecretScan:
    """Scans the content of one file, chunk by chunk."""

    def __init__(self, path: str) -> None:
        self._path, self._tail = path, b""

    def feed(self, chunk: bytes) -> None:
        """Scan the next bytes.

        Raises:
            BundleRefused: they hold what looks like a key; the message does not repeat it.
        """
        seen = self._tail + chunk
        for marker, (what, pattern) in _PATTERNS.items():
            if marker in seen and pattern.search(seen):
                raise BundleRefused(f"{self._path!r} holds what looks like {what}; {_ADVICE}")
        self._tail = seen[-_LONGEST:]
