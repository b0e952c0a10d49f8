"""Checkpoints as safetensors: parameters and the optimiser's moments. Draws need no saving, see `streams`."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from cachemedicpp.repair.operators import Trained
from homeostat.core import atomic
from homeostat.core.errors import UserError


def save_checkpoint(path: Path, step: int, operator: Trained, optimiser: torch.optim.Optimizer) -> None:
    """Write the state after `step` steps in one file: parameters and moments always belong together."""
    tensors = {f"parameter/{name}": x for name, x in operator.state_dict().items()}
    for name, parameter in operator.named_parameters():
        for key, value in optimiser.state.get(parameter, {}).items():
            tensors[f"optimiser/{key}/{name}"] = value
    data = {name: x.detach().cpu().contiguous() for name, x in tensors.items()}
    atomic.write_bytes(path, save(data, metadata={"step": str(step)}))


def load_checkpoint(path: Path, operator: Trained, optimiser: torch.optim.Optimizer) -> int:
    """Restore a saved state, bit for bit. Returns how many steps it has done; 0 without a file."""
    if not path.exists():
        return 0
    try:
        with safe_open(path, framework="pt") as file:
            step = int(file.metadata()["step"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError, KeyError, TypeError) as error:
        raise UserError(f"damaged checkpoint {path}: {error}; delete it to start again") from None
    operator.load_state_dict(
        {n.removeprefix("parameter/"): x for n, x in tensors.items() if n.startswith("parameter/")}
    )
    for name, parameter in operator.named_parameters():
        for key in {n.split("/")[1] for n in tensors if n.startswith("optimiser/")}:
            if (moment := tensors.get(f"optimiser/{key}/{name}")) is not None:
                optimiser.state[parameter][key] = moment.to(parameter.device) if moment.dim() else moment
    return step
