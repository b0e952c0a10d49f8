"""Operator G: calibrated, in closed form, blind. The same call serves every kind of damage.

lost elements   → the mean of what they can be, given the rest of the token's cache
outliers        → found by leave-one-out residuals, then the same
noise           → estimated for each head and block of positions, then the posterior mean
misfits         → named; left alone where so many heads fail that nothing can be judged
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import Cache

from cachemedicpp.cache.state import KV, KVState, readable, write
from cachemedicpp.repair.base import Repair, RepairReport, Stored, layout
from cachemedicpp.repair.cards import check_fit, save_repair
from cachemedicpp.repair.gaussian import exact, fit, noise, outliers, sinks
from cachemedicpp.repair.gaussian.field import Field
from cachemedicpp.repair.gaussian.noise import Noise
from cachemedicpp.repair.gaussian.report import Report
from cachemedicpp.repair.gaussian.statistics import Statistics
from cachemedicpp.repair.gaussian.tokens import blocks_of, gather, table
from homeostat.core.errors import UserError
from homeostat.core.records import Record

_TOKENS = 4096  # worked on at a time
_SINK_OUTLIER = 8.0  # sink templates are tight: this is about a twelfth of a sink's RMS
_GONE = 0.9  # share of a token's elements beyond which there is nothing left to impute it from
_HELPLESS = 0.5  # share of misfitting heads in a block beyond which it is left alone


class GaussianRepair(Repair):
    """Operator G for one model. `card` is what was stored with it."""

    name = "G"
    whole_cache = True

    def __init__(self, stats: Statistics, card: Record, without: Collection[str] = ()) -> None:
        """`without` names types of damage that G is to meet as if it had never heard of them.

        Zeros are then no sign of loss (`dropout_zero`), grids none of rounding (`quant_noise`); no element
        is an outlier (`bitflipish_sparse`), no head noisy (`gaussian`), none a misfit
        (`orthogonal_rotation`).
        """
        self.without = frozenset(without)
        self.stats = stats
        self.card = card
        self.layers = tuple(range(stats.layers))
        self.field = Field(stats)

    def check(self, model: Any) -> None:
        check_fit(self.card, model)

    def save(self, folder: str | Path) -> None:
        """Write the operator to a folder that `load_repair` reads."""
        save_repair(Path(folder), self.stats.tensors(), self.card)

    def repair_layer(self, kv: KV, stored: Stored) -> KV:
        raise UserError(
            "operator G reads neighbouring layers together, so it repairs a cache at rest: call "
            "repair.repair_cache(cache, attention_mask) after the prefill"
        )

    @torch.no_grad()
    def repair_cache(
        self,
        cache: Cache,
        attention_mask: Tensor | None = None,
        suspect: Mapping[int, Tensor] | None = None,
    ) -> RepairReport:
        """Repair what `cache` stores, in place; what needs no repair keeps its bits.

        Blind: `suspect` is not looked at. Layers inform each other, so positions that a sliding window has
        dropped from some layers are not judged in the others.
        """
        state = readable(cache)
        self._check_shape(state)
        real, positions = (
            x[:, state.first :]
            for x in layout(state.length, state.batch, attention_mask, torch.device("cpu"))
        )
        report = Report(self.stats.groups // 2, state.first, older=state.first * state.batch)
        size = max(1, _TOKENS // state.length)
        parts = [slice(start, start + size) for start in range(0, state.batch, size)]
        older = [state.first - state.start(layer) for layer in self.layers]
        recent = [KV(*(x[..., skip:, :] for x in kv)) for kv, skip in zip(state, older, strict=True)]
        mended = [
            self._rows(
                [KV(K[rows], V[rows]) for K, V in recent], real[rows], positions[rows], report, rows.start
            )
            for rows in parts
        ]
        write(
            cache,
            {
                layer: _behind(state[layer], older[layer], _join([part[layer] for part in mended]))
                for layer in self.layers
            },
        )
        report.relative_change = {str(i): _moved(state[i], KVState(cache)[i]) for i in self.layers}
        return report.as_record()

    def _rows(self, state: list[KV], real: Tensor, positions: Tensor, report: Report, start: int) -> list[KV]:
        """A few sequences: repaired tensors, the same objects where nothing changed."""
        before = gather(state)
        after, changed = self._repair(before, real, positions, state[0].K.dtype, report, start)
        out = []
        for layer, (K, V) in enumerate(state):
            where = changed[:, :, layer].transpose(1, 2).to(K.device)  # [b, G, T, d]
            if not bool(where.any()):
                out.append(KV(K, V))
                continue
            new = after[:, :, layer].transpose(1, 2).to(K)
            pairs = zip((K, V), where.chunk(2, 1), new.chunk(2, 1), strict=True)
            out.append(KV(*(torch.where(here, fresh, old) for old, here, fresh in pairs)))
        return out

    def _repair(
        self, stored: Tensor, real: Tensor, positions: Tensor, dtype: torch.dtype, report: Report, start: int
    ) -> tuple[Tensor, Tensor]:
        """Repaired numbers for `stored` `[b, T, L, G, d]` and which of them changed."""
        stats, field, rows = self.stats, self.field, len(stored)
        known = real & stats.known(positions)
        number, count = blocks_of(known, positions - positions[:, :1])
        gridded = exact.on_grid(stored[known], number[known], count, coarse=dtype != torch.float32)
        if "quant_noise" in self.without:
            gridded = torch.zeros_like(gridded)
        rounded = torch.ones_like(gridded) if "dropout_zero" in self.without else gridded
        lost = exact.lost_elements(stored, stats.scale, rounded[number]) & real[..., None, None, None]
        usable = stored.masked_fill((lost & (stored != 0)) | ~stored.isfinite(), 0.0)
        gone = lost.float().mean((-1, -2, -3)) > _GONE  # [b, T]
        sink = sinks.is_sink(usable, stats) & known & ~gone
        ordinary = known & ~sink

        tokens = table(usable, ordinary, positions, (number, count), stats, stats.mean)
        flips = "bitflipish_sparse" not in self.without
        gross = outliers.gross(stats) if flips else torch.full_like(stats.scale, torch.inf)
        found = outliers.in_head(tokens, lost[ordinary], field.head_precision, gross)
        slope = fit.fits(tokens, stats)
        misfit = fit.misfits(slope.view(rows, -1, *slope.shape[1:])).view_as(slope)
        if "orthogonal_rotation" in self.without:
            misfit = torch.zeros_like(misfit)
        helpless = misfit.float().mean((1, 2)) > _HELPLESS  # [blocks]
        found.dense |= helpless[:, None, None]
        if flips:
            outliers.across_heads(field, tokens, found)
        heard = ~helpless if "gaussian" not in self.without else torch.zeros_like(helpless)
        levels = noise.estimate(field, tokens, rows, heard)
        tokens.x = noise.denoise(field, tokens, levels)
        judged = ~(helpless[tokens.block] | gone[tokens.row, tokens.column])[:, None, None, None]
        touched = (found.lost | levels.found[tokens.block].unsqueeze(-1)) & judged

        after, changed = usable, torch.zeros_like(stored, dtype=torch.bool)
        where = (tokens.row, tokens.column)
        after[where] = tokens.stored(tokens.x + stats.mean) * stats.scale.unsqueeze(-1)
        changed[where] = touched
        if bool(sink.any()):
            self._mend_sinks(after, changed, lost, sink, positions, (number, count), levels, gridded)
        changed |= ~stored.isfinite()  # in padding too: attention multiplies it by 0, and 0 times NaN is NaN

        report.lost += int((lost & changed).sum())
        report.outliers += int((found.lost & touched).sum()) - int((lost[where] & touched).sum())
        report.sinks += int(sink.sum())
        report.gone += int((gone & known).sum())
        report.beyond += int((real & ~known).sum())
        report.add_noise(levels.level.view(rows, -1, *levels.level.shape[1:]), start)
        report.add_misfits(
            misfit.view(rows, -1, *misfit.shape[1:]), slope.view(rows, -1, *slope.shape[1:]), start
        )
        report.add_blocks(number, changed, known, gone, helpless.view(rows, -1), start)
        return after, changed

    def _mend_sinks(
        self,
        after: Tensor,
        changed: Tensor,
        lost: Tensor,
        sink: Tensor,
        positions: Tensor,
        blocks: tuple[Tensor, int],
        levels: Noise,
        gridded: Tensor,
    ) -> None:
        """Sinks against their own template, head by head, at the noise level of the tokens around them."""
        stats = self.stats
        assert stats.sink is not None  # noqa: S101
        tokens = table(after, sink, positions, blocks, stats, stats.sink.mean)
        P = sinks.precision(stats.sink)
        gross = torch.inf if "bitflipish_sparse" in self.without else _SINK_OUTLIER
        found = outliers.in_head(tokens, lost[sink], P, torch.full_like(stats.scale, gross), sparse=0.25)
        level = levels.level[tokens.block]  # [N, L, G]
        rms = (tokens.x + stats.sink.mean).square().mean(-1).sqrt()
        variance = torch.where(
            gridded[tokens.block], level.square(), (level * rms).square() / (1 + level.square())
        )
        template = sinks.covariance(stats.sink)
        eye = torch.eye(stats.head_dim)
        mended = torch.linalg.solve(template + variance[..., None, None] * eye, tokens.x.unsqueeze(-1))
        noisy = (level > 0).unsqueeze(-1)
        tokens.x = torch.where(noisy, (template @ mended).squeeze(-1), tokens.x)
        where = (tokens.row, tokens.column)
        after[where] = tokens.stored(tokens.x + stats.sink.mean) * stats.scale.unsqueeze(-1)
        changed[where] = found.lost | noisy

    def _check_shape(self, state: KVState) -> None:
        shapes = {(x.shape[1], x.shape[-1]) for kv in state for x in kv}
        here = (len(state), *max(shapes))
        ours = (self.stats.layers, self.stats.groups // 2, self.stats.head_dim)
        if here != ours or len(shapes) > 1:
            raise UserError(
                f"operator G was calibrated for {ours[0]} layers × {ours[1]} KV heads × {ours[2]}; this "
                f"cache has {here[0]} × {here[1]} × {here[2]}: calibrate one for this model"
            )


def _behind(whole: KV, older: int, recent: KV) -> KV:
    """A layer whose first `older` positions stay as they are."""
    if older == 0:
        return recent
    return KV(*(torch.cat((x[..., :older, :], y), -2) for x, y in zip(whole, recent, strict=True)))


def _join(parts: list[KV]) -> KV:
    if len(parts) == 1:
        return parts[0]
    return KV(torch.cat([kv.K for kv in parts]), torch.cat([kv.V for kv in parts]))


def _moved(before: KV, after: KV) -> float:
    if all(a is b for a, b in zip(after, before, strict=True)):
        return 0.0
    pairs = [
        (a.float().nan_to_num(), b.float().nan_to_num(0, 0, 0)) for a, b in zip(after, before, strict=True)
    ]
    moved = sum(float((a - b).square().sum()) for a, b in pairs)
    size = sum(float(b.square().sum()) for _, b in pairs)
    return float((moved / size) ** 0.5) if size else 0.0
