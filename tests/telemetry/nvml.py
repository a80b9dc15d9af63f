"""NVIDIA's library as far as it is asked: one processor that answers, and one that does not."""

from types import SimpleNamespace


class NVMLError(Exception):
    """As the library's own."""


def nvmlInit() -> None: ...


def nvmlDeviceGetCount() -> int:
    return 2


def nvmlDeviceGetHandleByIndex(index: int) -> int:
    return index


def nvmlDeviceGetName(handle: int) -> bytes:
    return b"H100"


def nvmlDeviceGetMemoryInfo(handle: int) -> SimpleNamespace:
    return SimpleNamespace(used=10, total=100)


def nvmlDeviceGetUtilizationRates(handle: int) -> SimpleNamespace:
    if handle:
        raise NVMLError("GPU is lost")
    return SimpleNamespace(gpu=25)
