"""What training achieves: the KL to the clean model on other text, with and without the operator."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from cachemedicpp.corruption import CorruptionFamily
from cachemedicpp.repair.operators import Trained
from cachemedicpp.train.passes import study, teach
from homeostat.core.progress import track
from homeostat.core.records import Record
from homeostat.core.stats import bootstrap, paired_bootstrap


def heldout_kl(
    model: Any,
    operator: Trained,
    family: CorruptionFamily,
    ids: Tensor,
    prefix_len: int,
    batch_size: int,
) -> Record:
    """Mean KL (temperature 1) over continuation positions, for each sequence under a draw from `Pi`.

    Both sides get the same draw. `clean_drift` is what the operator does to an undamaged cache.
    """
    rows: dict[str, list[float]] = {"unrepaired": [], "repaired": [], "clean_drift": []}
    types: list[str] = []
    injection = family.mixture()
    with torch.no_grad():
        for batch in track(_batches(ids, batch_size), "held-out KL"):
            teacher = teach(model, batch, prefix_len, min(operator.layers))
            bare = study(model, teacher, None, injection)
            rows["unrepaired"] += _kl(teacher.logits, bare.logits)
            rows["repaired"] += _kl(teacher.logits, study(model, teacher, operator, injection).logits)
            rows["clean_drift"] += _kl(teacher.logits, study(model, teacher, operator, None).logits)
            types += [event.type for event in bare.plan.events] if bare.plan else []
    record: Record = {name: bootstrap(values).as_record() for name, values in rows.items()}
    record["repaired_minus_unrepaired"] = paired_bootstrap(rows["repaired"], rows["unrepaired"]).as_record()
    record["sequences"] = len(types)
    record["by_type"] = {
        kind: {
            "sequences": types.count(kind),
            **{name: _mean(values, types, kind) for name, values in rows.items() if name != "clean_drift"},
        }
        for kind in sorted(set(types))
    }
    return record


def _batches(ids: Tensor, size: int) -> list[Tensor]:
    return [ids[i : i + size] for i in range(0, len(ids), size)]


def _kl(z_clean: Tensor, z: Tensor) -> list[float]:
    clean, other = F.log_softmax(z_clean.float(), -1), F.log_softmax(z.float(), -1)
    kl = F.kl_div(other, clean, reduction="none", log_target=True).sum(-1)  # [B, C]
    return [float(x) for x in kl.mean(-1).tolist()]


def _mean(values: list[float], types: list[str], kind: str) -> float:
    return float(np.mean([v for v, t in zip(values, types, strict=True) if t == kind]))
