"""A device that is not there: tensors that compute on the CPU and say that they are elsewhere.

`Elsewhere` stands in for a GPU. As on one, an operation on tensors of both devices is an error, single
numbers aside, and so is `numpy()` without `cpu()`. Unlike PyTorch's fake tensors these hold numbers, so code
whose way depends on them runs as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

DEVICE = torch.device("meta")  # a device that every build of PyTorch knows
_aten = torch.ops.aten
_BETWEEN = {_aten.copy_.default, _aten.copy.default, _aten._to_copy.default}
_INDEXED_BY_CPU = {_aten.index.Tensor, _aten.index_put_.default, _aten.index_put.default}


class WrongDeviceError(RuntimeError):
    """An operation got tensors of two devices."""


class Elsewhere(torch.Tensor):
    """A tensor on `DEVICE`, whose numbers are in `inner`."""

    inner: torch.Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Elsewhere:
        made = torch.Tensor._make_wrapper_subclass(
            cls, inner.size(), strides=inner.stride(), storage_offset=inner.storage_offset(),
            dtype=inner.dtype, device=DEVICE, requires_grad=False,
        )  # fmt: skip
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(function, args, kwargs or {})


class _Operations(TorchDispatchMode):
    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(function, args, kwargs or {})


class _Made(TorchFunctionMode):
    """Tensors from Python's numbers are made on the CPU, then moved."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if function in (torch.tensor, torch.as_tensor) and kwargs.get("device") is not None:
            device = torch.device(kwargs.pop("device"))
            return function(*args, **kwargs).to(device)
        if function is torch.Tensor.new_tensor:
            return torch.tensor(*args[1:], dtype=args[0].dtype).to(args[0].device)
        if function is torch.Tensor.tolist:
            return args[0].cpu().tolist()
        return function(*args, **kwargs)


def _run(function: Any, args: Any, kwargs: Any) -> Any:
    tensors = [x for x in tree_flatten((args, kwargs))[0] if isinstance(x, torch.Tensor)]
    there = [x for x in tensors if isinstance(x, Elsewhere)]
    here = [x for x in tensors if not isinstance(x, Elsewhere) and x.dim() > 0]
    indexed = function in _INDEXED_BY_CPU and isinstance(args[0], Elsewhere)
    if there and here and function not in _BETWEEN and not indexed:
        shapes = [f"{x.device.type}{list(x.shape)}" for x in tensors]
        raise WrongDeviceError(f"{function} got tensors of two devices: {', '.join(shapes)}")
    device = kwargs.get("device")
    on = bool(there) if device is None else torch.device(device).type == DEVICE.type
    if function in _BETWEEN and device is None and function is not _aten._to_copy.default:
        on = isinstance(args[0], Elsewhere)
    if device is not None:
        kwargs = {**kwargs, "device": torch.device("cpu")}
    known = {id(x.inner): x for x in there}
    plain_args, plain_kwargs = tree_map(
        lambda x: x.inner if isinstance(x, Elsewhere) else x, (tuple(args), kwargs)
    )
    found = function(*plain_args, **plain_kwargs)

    def back(x: Any) -> Any:
        if not isinstance(x, torch.Tensor) or isinstance(x, Elsewhere):
            return x
        if id(x) in known:
            return known[id(x)]
        return Elsewhere(x) if on else x

    return tree_map(back, found)


def moved(module: torch.nn.Module) -> torch.nn.Module:
    """A module with its parameters and buffers elsewhere."""
    for part in module.modules():
        for name, value in part._parameters.items():
            if value is not None:
                part._parameters[name] = torch.nn.Parameter(Elsewhere(value.detach()), value.requires_grad)
        for name, buffer in part._buffers.items():
            if buffer is not None:
                part._buffers[name] = Elsewhere(buffer)
    return module


@contextmanager
def elsewhere() -> Iterator[None]:
    """Inside the block, tensors may be made on and moved to `DEVICE`."""
    with _Made(), _Operations():
        yield
