"""The model of a trainer's rollouts: a name, or an object of the trainer's own."""

from collections.abc import Collection, Mapping
from typing import Any, cast

from rollouthub.engine.run_request import RunRequest, build_request
from rollouthub.errors import ConfigError
from rollouthub.generation import Model


def with_model(
    request: RunRequest | None,
    model: Model | str | None,
    settings: Mapping[str, Any],
    origin: str,
    others: Collection[str] = (),
) -> tuple[RunRequest, Model | None]:
    """The request with further settings, and the model if it is an object. `origin` and `others` are as in
    `build_request`.

    Raises:
        ConfigError: a setting is invalid, or the model is neither a name nor a model.
    """
    base: dict[str, Any] = {} if request is None else request.model_dump(exclude_unset=True)
    named = {"model": model} if isinstance(model, str) else {}
    engine = None if isinstance(model, str) else model
    if engine is not None and not isinstance(cast(object, engine), Model):  # callers are seldom typed
        raise ConfigError(
            f"model = {engine!r} is no model: give a name, such as 'hosted_vllm/NAME', or an object with `name` and "
            "`async generate(request)`, such as a TokenModel"
        )
    return build_request({**base, **settings, **named}, origin, others), engine
