"""Operator G: calibrated, in closed form, blind. The same call serves every kind of damage.

a cheap look    → which blocks of positions, in which layers, may be damaged; all others keep their bits
lost elements   → the mean of what they can be, given the rest of the token's cache
outliers        → single elements and whole vectors, found by leave-one-out residuals, then the same
noise           → estimated for each head and block of positions, then the posterior mean
misfits         → named; forgotten (the mean) where so many heads fail that nothing can be told
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import product
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
from cachemedicpp.repair.gaussian.tokens import Tokens, blocks_of, gather, table
from homeostat.core.errors import UserError
from homeostat.core.records import Record

_TOKENS = 4096  # worked on at a time
_SINK_OUTLIER = 8.0  # sink templates are tight: this is about a twelfth of a sink's RMS
_TURNED = 0.5  # squared distance from its template, of the template's own, from which a sink is no longer one
_GONE = 0.9  # share of a token's elements beyond which there is nothing left to impute it from
_IMPOSSIBLE = 1.25  # times the largest clean element: no element is larger


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
        device = state[0].K.device
        if self.stats.scale.device != device:
            self.stats = self.stats.to(device)
            self.field = Field(self.stats)
        real, positions = (
            x[:, state.first :] for x in layout(state.length, state.batch, attention_mask, device)
        )
        report = Report(self.stats.groups // 2, state.first, older=state.first * state.batch)
        older = [state.first - state.start(layer) for layer in self.layers]
        mended = [KV(*(x[..., skip:, :].clone() for x in kv)) for kv, skip in zip(state, older, strict=True)]
        changed: set[int] = set()
        for row, start in product(range(state.batch), range(0, real.shape[1], _TOKENS)):
            piece = slice(row, row + 1), slice(start, start + _TOKENS)
            here = [KV(*(x[piece[0], :, piece[1]] for x in kv)) for kv in mended]
            changed |= self._piece(here, real[piece], positions[piece], report, (row, start))
        fresh = {layer: _behind(state[layer], older[layer], mended[layer]) for layer in sorted(changed)}
        write(cache, fresh)
        report.relative_change = {
            str(i): _moved(state[i], fresh[i]) if i in fresh else 0.0 for i in self.layers
        }
        return report.as_record()

    def _piece(
        self, state: list[KV], real: Tensor, positions: Tensor, report: Report, at: tuple[int, int]
    ) -> set[int]:
        """Repair a piece of one sequence where it stands; the layers that changed."""
        after, changed = self._repair(gather(state), real, positions, state[0].K.dtype, report, at)
        layers = set(changed.flatten(0, 1).flatten(2).any(-1).any(0).nonzero().flatten().tolist())
        for layer in layers:
            where = changed[:, :, layer].transpose(1, 2)  # [1, G, T, d]
            new = after[:, :, layer].transpose(1, 2).to(state[layer].K.dtype)
            for old, here, fresh in zip(state[layer], where.chunk(2, 1), new.chunk(2, 1), strict=True):
                old[here] = fresh[here]
        return layers

    def _repair(
        self,
        stored: Tensor,
        real: Tensor,
        positions: Tensor,
        dtype: torch.dtype,
        report: Report,
        at: tuple[int, int],
    ) -> tuple[Tensor, Tensor]:
        """Repaired numbers for `stored` `[1, T, L, G, d]` and which of them changed."""
        stats, field = self.stats, self.field
        known = real & stats.known(positions)
        number, count = blocks_of(known, positions - positions[:, :1])
        coarse = dtype != torch.float32
        step = exact.grids(stored[known], number[known], count, coarse)  # [blocks, L, G]
        if "quant_noise" in self.without:
            step = torch.zeros_like(step)
        rounded = step[number] > 0
        if bool(rounded.any()):
            rounded &= exact.multiples(stored.abs(), step[number], coarse)
        if "dropout_zero" in self.without:
            rounded = torch.ones_like(rounded)
        lost = exact.lost_elements(stored, stats.scale, rounded) & real[..., None, None, None]
        usable = stored.masked_fill((lost & (stored != 0)) | ~stored.isfinite(), 0.0)
        gone = lost.float().mean((-1, -2, -3)) > _GONE  # [1, T]
        sink = sinks.is_sink(usable, stats) & known & ~gone
        ordinary = known & ~sink
        flips = "bitflipish_sparse" not in self.without
        impossible = torch.zeros_like(lost)
        if flips:
            limit = _IMPOSSIBLE * stats.limit * stats.scale.unsqueeze(-1)
            impossible = (usable.abs() > limit) & ordinary[..., None, None, None] & ~lost

        tokens = table(usable, ordinary, positions, (number, count), stats, stats.mean)
        active = look(field, tokens, (lost | impossible)[ordinary])  # [blocks, L]
        active |= _near(step.any(-1), stats.reach)
        tokens = tokens.take(active.any(-1)[tokens.block].nonzero().squeeze(1))
        where = (tokens.row, tokens.column)
        first, given = tokens.x.clone(), lost[where]
        gross = outliers.gross(stats) if flips else torch.full_like(stats.scale, torch.inf)
        turned = "orthogonal_rotation" not in self.without
        far = outliers.FAR * stats.strangest[0] if turned else torch.full_like(stats.scale, torch.inf)
        found = outliers.in_head(tokens, given, active, field.head_precision, gross, far, impossible[where])
        as_stored = torch.where(found.wrong.unsqueeze(-1), first, tokens.x)
        slope = fit.fits(replace(tokens, x=as_stored), stats)
        misfit = fit.misfits(slope.unsqueeze(0))[0] & active.unsqueeze(-1)
        if not turned:
            misfit = torch.zeros_like(misfit)
        heard = active if "gaussian" not in self.without else torch.zeros_like(active)
        without = outliers.discard(field, tokens, found, misfit)
        found.dense |= ((step > 0) | noise.only_noise(field, tokens, heard, found.lost)) & ~without
        if flips or turned:
            outliers.across_heads(field, tokens, found, active, first, given, without, flips, turned)
        levels = noise.estimate(field, tokens, heard, step / stats.scale)
        tokens.x = noise.denoise(field, tokens, levels)
        touched = found.lost | levels.taken[tokens.block].unsqueeze(-1)

        after, changed = usable, torch.zeros_like(stored, dtype=torch.bool)
        mended = tokens.stored(tokens.x + stats.mean) * stats.scale.unsqueeze(-1)
        half = step[tokens.block].unsqueeze(-1) / 2  # rounding has moved nothing by more
        near = torch.clamp(mended - stored[where], -half, half) + stored[where]
        after[where] = torch.where((half > 0) & ~found.lost, near, mended)
        changed[where] = touched
        if bool(sink.any()):
            self._mend_sinks(after, changed, lost, sink, positions, (number, count), levels, step)
        changed |= ~stored.isfinite()  # in padding too: attention multiplies it by 0, and 0 times NaN is NaN

        report.lost += int((lost & changed).sum())
        report.outliers += int((found.lost & touched).sum()) - int((given & touched).sum())
        report.vectors += int(found.wrong.sum())
        report.sinks += int(sink.sum())
        report.gone += int((gone & known).sum())
        report.beyond += int((real & ~known).sum())
        report.add_noise(torch.where(levels.taken, levels.level, 0.0).unsqueeze(0), at[0])
        report.add_misfits(misfit.unsqueeze(0), slope.unsqueeze(0), at[0])
        report.add_blocks(number, changed, real, known, gone, without, at)
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
        step: Tensor,
    ) -> None:
        """Sinks against their own template, head by head, at the noise level of the tokens around them."""
        stats = self.stats
        assert stats.sink is not None  # noqa: S101
        tokens = table(after, sink, positions, blocks, stats, stats.sink.mean)
        first = tokens.x.clone()
        P = sinks.precision(stats.sink)
        gross = torch.full_like(
            stats.scale, torch.inf if "bitflipish_sparse" in self.without else _SINK_OUTLIER
        )
        far = torch.full_like(stats.scale, torch.inf)
        strange = outliers.distance(tokens.x, P) * stats.head_dim > _SINK_OUTLIER**2  # [N, L, G]
        active = torch.zeros(blocks[1], stats.layers, dtype=torch.bool, device=sink.device)
        active[tokens.block] |= (strange | lost[sink].any(-1)).any(-1)
        found = outliers.in_head(tokens, lost[sink], active, P, gross, far)
        level = torch.where(levels.taken, levels.level, 0.0)[tokens.block]  # [N, L, G]
        apart = tokens.x.square().sum(-1) > _TURNED * stats.sink.mean.square().sum(-1)
        apart &= (outliers.distance(tokens.x, P) > _SINK_OUTLIER) & (level == 0)
        found.lost |= apart.unsqueeze(-1)
        tokens.x = tokens.x.masked_fill((found.wrong | apart).unsqueeze(-1), 0.0)  # the template itself
        rms = (first + stats.sink.mean).square().mean(-1).sqrt()
        variance = torch.where(
            step[tokens.block] > 0, level.square(), (level * rms).square() / (1 + level.square())
        )
        noisy = level > 0
        if bool(noisy.any()):
            template = sinks.covariance(stats.sink)
            eye = torch.eye(stats.head_dim, device=sink.device)
            mended = torch.linalg.solve(template + variance[..., None, None] * eye, tokens.x.unsqueeze(-1))
            tokens.x = torch.where(noisy.unsqueeze(-1), (template @ mended).squeeze(-1), tokens.x)
        where = (tokens.row, tokens.column)
        after[where] = tokens.stored(tokens.x + stats.sink.mean) * stats.scale.unsqueeze(-1)
        changed[where] = found.lost | noisy.unsqueeze(-1)

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


def look(field: Field, tokens: Tokens, lost: Tensor) -> Tensor:
    """Blocks and layers `[blocks, L]` that may be damaged: some token, or most of them a little, is stranger
    than clean text ever was, or has lost something. The layers beside them are looked at, too."""
    stats = field.stats
    seen = field.glance(tokens.x)
    strange = (seen > outliers.FAR * stats.glance[0]) | lost.any(-1)  # [N, L, G]
    strange |= outliers.distance(tokens.x, field.head_precision) > outliers.FAR * stats.strangest[0]
    most = tokens.block_median(seen) > noise.GATE * stats.glance[1]
    found = (tokens.block_mean(strange.float()) > 0) | most
    return _near(found.any(-1), stats.reach)


def _near(found: Tensor, reach: int) -> Tensor:
    """`[blocks, L]` with the neighbours of every layer that was found."""
    spread = torch.nn.functional.max_pool1d(found.float().unsqueeze(1), 2 * reach + 1, 1, reach)
    return spread.squeeze(1) > 0


def _moved(before: KV, after: KV) -> float:
    if all(a is b for a, b in zip(after, before, strict=True)):
        return 0.0
    pairs = [
        (a.float().nan_to_num(), b.float().nan_to_num(0, 0, 0)) for a, b in zip(after, before, strict=True)
    ]
    moved = sum(float((a - b).square().sum()) for a, b in pairs)
    size = sum(float(b.square().sum()) for _, b in pairs)
    return float((moved / size) ** 0.5) if size else 0.0
