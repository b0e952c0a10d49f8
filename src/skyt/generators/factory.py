"""From a `generator:` section of a configuration to a generator; heavy ones are imported on demand."""

from __future__ import annotations

import importlib

from homeostat.core.errors import UserError
from skyt.generators.base import Generator
from skyt.generators.config import (
    CallableGenerator,
    GeneratorConfig,
    LocalGenerator,
    OpenAIGenerator,
    RecordedGenerator,
)


def make_generator(config: GeneratorConfig) -> Generator:
    if isinstance(config, LocalGenerator):
        from skyt.generators.local import LocalModel

        return LocalModel.load(config)
    if isinstance(config, OpenAIGenerator):
        from skyt.generators.openai import Endpoint

        return Endpoint(config)
    if isinstance(config, RecordedGenerator):
        from skyt.generators.recorded import Recorded

        return Recorded.open(config)
    from skyt.generators.function import Function

    return Function(_resolve(config), name=config.name, concurrency=config.concurrency)


def check_generator(config: GeneratorConfig, reachable: bool = True) -> None:
    """Refuse what cannot work, without loading a model: a device, a name, a key, an address, a file.

    With `reachable`, an endpoint must answer from this machine.
    """
    if isinstance(config, LocalGenerator):
        config.model.check()
    elif isinstance(config, OpenAIGenerator):
        from skyt.generators.openai import Endpoint

        endpoint = Endpoint(config)
        if reachable:
            endpoint.check()
    else:
        make_generator(config)


def _resolve(config: CallableGenerator) -> object:
    module, _, name = config.target.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise UserError(f"generator target {config.target!r}: {error}") from None
