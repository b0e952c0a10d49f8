"""The guard in vLLM: name this module as `kv_connector_module_path` and `GuardConnector` as `kv_connector`."""

from typing import Any

__all__ = ["GuardConnector"]


def __getattr__(name: str) -> Any:
    if name != "GuardConnector":
        raise AttributeError(f"module 'cachemedicpp.engines.vllm' has no attribute {name!r}")
    from cachemedicpp.engines.vllm.connector import GuardConnector

    return GuardConnector
