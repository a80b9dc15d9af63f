"""A platform for veRL on a CPU, registered by the way that veRL has for other accelerators."""

import os
from importlib import import_module
from typing import Any


class CpuDevice:
    """What veRL asks of torch's module of an accelerator."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return zero if "memory" in name else nothing

    def is_available(self) -> bool:
        """It is there."""
        return True

    def current_device(self) -> str:
        """The device's name, in the place of its number."""
        return "cpu"

    def device_count(self) -> int:
        """There is one."""
        return 1

    def get_device_name(self, *_: object) -> str:
        """As veRL's table of speeds has it."""
        return "CPU"

    def mem_get_info(self, *_: object) -> tuple[int, int]:
        """Free and whole memory, in bytes, which nothing depends on."""
        return 0, 1


def zero(*_: object, **__: object) -> int:
    """The bytes of an accelerator's memory."""
    return 0


def nothing(*_: object, **__: object) -> None:
    """Do what a CPU needs not."""


def _name(_: object) -> str:
    return "cpu"


def _device(_: object) -> CpuDevice:
    return CpuDevice()


def _yes(_: object) -> bool:
    return True


def _one(_: object) -> int:
    return 1


def _unknown(*_: object) -> tuple[None, None]:
    return None, None


def _gloo(_: object) -> str:
    return "gloo"


def _none(_: object) -> list[str]:
    return []


def use_cpu() -> None:
    """Have veRL compute on the CPU, in a process group of this process alone."""
    torch: Any = import_module("torch")
    manager: Any = import_module("verl.plugin.platform.platform_manager")
    base: Any = import_module("verl.plugin.platform.platform_base").PlatformBase
    answers: dict[str, Any] = {
        "device_name": property(_name),
        "vendor_name": property(_name),
        "device_module": property(_device),
        "is_available": _yes,
        "current_device": _name,
        "device_count": _one,
        "get_device_capability": _unknown,
        "communication_backend_name": _gloo,
        "visible_devices_envvar": _name,
        "ray_resource_name": _name,
        "ray_noset_envvars": _none,
    }
    others: dict[str, Any] = {name: nothing for name in base.__abstractmethods__ if name not in answers}
    manager.set_platform(type("CpuPlatform", (base,), {**others, **answers})())
    os.environ["VERL_ENGINE_DEVICE"] = "cuda"  # under which its FSDP engine is registered
    torch.distributed.init_process_group("gloo")
