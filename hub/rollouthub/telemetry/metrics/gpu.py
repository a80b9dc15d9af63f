"""GPU figures, where NVIDIA's library and its Python package (`nvidia-ml-py`, the extra `gpu`) are installed."""

import logging
from importlib import import_module
from pathlib import Path
from typing import Any

from rollouthub.plugins.extras import pip_install
from rollouthub.telemetry.metrics.process_figures import Gpu

_DRIVER = Path("/proc/driver/nvidia")
"""Exists where NVIDIA's driver is loaded."""

logger = logging.getLogger(__name__)


class Gpus:
    """The GPUs of this machine; none if NVIDIA's library is missing."""

    def __init__(self, module: str = "pynvml", driver: Path = _DRIVER) -> None:
        self._library: Any = None
        self._handles: list[Any] = []
        try:
            library: Any = import_module(module)
            library.nvmlInit()
        except ImportError:
            if driver.exists():
                logger.warning("this machine's GPUs are not measured; for that run `%s`", pip_install("gpu"))
            return
        except Exception as error:  # the library's own: no driver, no permission
            logger.debug("no graphics processors are measured: %s", error)
            return
        self._library = library
        self._handles = [library.nvmlDeviceGetHandleByIndex(index) for index in range(library.nvmlDeviceGetCount())]

    def __len__(self) -> int:
        return len(self._handles)

    def look(self) -> list[Gpu]:
        """The present figures of each GPU; one that cannot be read is left out."""
        library = self._library
        found: list[Gpu] = []
        for index, handle in enumerate(self._handles):
            try:
                memory, load = library.nvmlDeviceGetMemoryInfo(handle), library.nvmlDeviceGetUtilizationRates(handle)
                name = library.nvmlDeviceGetName(handle)
            except Exception as error:  # the library's own
                logger.debug("graphics processor %d does not answer: %s", index, error)
                continue
            found.append(
                Gpu(
                    index=index,
                    name=name.decode() if isinstance(name, bytes) else str(name),
                    used_share=load.gpu / 100,
                    memory_used_bytes=int(memory.used),
                    memory_bytes=int(memory.total),
                )
            )
        return found
