"""Serves one unchanged NeMo Gym resources server on the private socket. Runs in the server's own Python environment.

It does what `SimpleServer.run_webserver` does, but without a head server, Ray, telemetry or a TCP port. The server
works in a copy of its folder, as it names files relative to it, and some write there.
"""

import importlib
import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any, cast

from rollouthub_servers.foreign.forked_serving import stand_in
from rollouthub_servers.foreign.serving import arguments
from rollouthub_servers.nemo_gym.gym_serving import serve_app

_STARTED = re.compile(r"^\s+(\w+)\.run_webserver\(\)", re.MULTILINE)
_LARGE = 1 << 20
"""Bytes of a file that is linked and not copied: data that servers read."""
_HERE = {"host": "127.0.0.1", "port": 1}
"""An address that the configuration requires, but on which nothing listens."""


def main() -> None:
    """Serve until the hub ends this process."""
    given = arguments()
    folder = private_copy(Path(given["folder"]), Path.cwd() / "gym")
    name, settings = str(given["name"]), dict(given["settings"])
    os.chdir(folder)
    if given["absent"]:
        stand_in(given["absent"])
    instance = {name: {"resources_servers": {folder.name: {**settings, **_HERE}}}}
    merged: dict[str, Any] = {**given["globals"], **instance, "head_server": dict(_HERE), "dry_run": False}
    os.environ["NEMO_GYM_CONFIG_DICT"] = json.dumps(merged)
    os.environ["NEMO_GYM_CONFIG_PATH"] = name
    root = folder.parent.parent
    sys.path.insert(0, str(root))
    sys.path.append(str(folder))  # some servers import what lies beside them by its bare name
    module = importlib.import_module(f"{folder.parent.name}.{folder.name}.{Path(given['entrypoint']).stem}")
    app = _application(module, name, {**settings, **_HERE, "name": name}, merged)
    serve_app(app, folder, is_shared=given["isolation"] == "shared")


def private_copy(folder: Path, root: Path) -> Path:
    """A copy of a server's folder that it may write to, below links to what else lies where the folder does."""
    servers = root / folder.parent.name
    servers.mkdir(parents=True)
    for above, held in ((folder.parent.parent, root), (folder.parent, servers)):
        for each in above.iterdir():
            if not (held / each.name).exists() and each != folder:
                (held / each.name).symlink_to(each)
    for place, names, files in os.walk(folder):
        names[:] = [name for name in names if name not in ("__pycache__", ".venv")]
        target = servers / folder.name / Path(place).relative_to(folder)
        target.mkdir()
        for name in files:
            source = Path(place, name)
            if source.stat().st_size > _LARGE:
                (target / name).symlink_to(source)
            else:
                shutil.copyfile(source, target / name)
    return servers / folder.name


def _application(module: Any, name: str, settings: dict[str, Any], merged: dict[str, Any]) -> Any:
    # Of the server's own environment; this one has neither.
    client_class: Any = importlib.import_module("nemo_gym.server_utils").ServerClient
    omega: Any = importlib.import_module("omegaconf").OmegaConf
    server_class: Any = _server_class(module)
    config: Any = server_class.model_fields["config"].annotation.model_validate(settings)
    client: Any = client_class(head_server_config=_HERE, global_config_dict=omega.create(merged))
    server = server_class(config=config, server_client=client)
    app = server.setup_webserver()
    server.setup_liveness(app)
    server.setup_exception_middleware(app)
    return app


def _server_class(module: Any) -> Any:
    """The server class that the program would run."""
    started = _STARTED.findall(Path(module.__file__).read_text(encoding="utf-8"))
    if started and hasattr(module, started[-1]):
        return getattr(module, started[-1])
    own: list[Any] = [
        value
        for value in cast(dict[str, Any], vars(module)).values()
        if isinstance(value, type) and value.__module__ == module.__name__ and hasattr(value, "setup_webserver")
    ]
    if not own:
        raise SystemExit(f"{module.__file__} defines no resources server")
    return own[-1]


if __name__ == "__main__":
    main()
