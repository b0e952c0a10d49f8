"""The guard in vLLM: `kv_connector_module_path` names this module, `kv_connector` is `GuardConnector`."""

from typing import Any

__all__ = ["GuardConnector"]


def __getattr__(name: str) -> Any:
    if name != "GuardConnector":
        raise AttributeError(f"module 'cachemedicpp.engines.vllm' has no attribute {name!r}")
    from cachemedicpp.engines.vllm.connector import GuardConnector

    return GuardConnector
