"""Operator G: calibrated, in closed form, blind. The same call serves every kind of damage.

a cheap look    → which blocks of positions, in which layers, may be damaged; all others keep their bits
lost elements   → the mean of what they can be, given the rest of the token's cache
outliers        → single elements and whole vectors, found by leave-one-out residuals, then the same
noise           → estimated for each head and block of positions, then the posterior mean
misfits         → named; forgotten (the mean) where so many heads fail that nothing can be told
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import Cache

from cachemedicpp.cache.state import KV, KVState, readable, write
from cachemedicpp.repair.base import Repair, RepairReport, Stored, layout
from cachemedicpp.repair.cards import check_fit, save_repair
from cachemedicpp.repair.gaussian import fit, noise, outliers, sinks
from cachemedicpp.repair.gaussian.field import Field
from cachemedicpp.repair.gaussian.losses import Losses, losses
from cachemedicpp.repair.gaussian.noise import Noise
from cachemedicpp.repair.gaussian.prior import BLOCK
from cachemedicpp.repair.gaussian.provenance import Judged, check_ids, judge, replace_foreign
from cachemedicpp.repair.gaussian.report import Report
from cachemedicpp.repair.gaussian.screen import Screened, near, screen
from cachemedicpp.repair.gaussian.statistics import Statistics
from cachemedicpp.repair.gaussian.tokens import Tokens, gather, table
from homeostat.core.errors import UserError
from homeostat.core.records import Record

_TOKENS = 4096  # worked on at a time
_SINK_OUTLIER = 8.0  # sink templates are tight: this is about a twelfth of a sink's RMS
_TURNED = 0.5  # squared distance from its template, of the template's own, from which a sink is no longer one


@dataclass(frozen=True)
class Mended:
    """Ordinary tokens after their repair, and what was found in them."""

    tokens: Tokens
    found: outliers.Found
    levels: Noise
    touched: Tensor  # [N, L, G, d]
    misfit: Tensor  # [blocks, L, G]
    slope: Tensor  # [blocks, L, G]: how well a head block fits its calibration
    unknown: Tensor  # [blocks, L]: given up


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
        self._embedding: Tensor | None = None

    def check(self, model: Any) -> None:
        check_fit(self.card, model)
        self.know(model)

    def know(self, model: Any) -> None:
        """Take the input embeddings of the operator's own model, which tell what its tokens are."""
        self._embedding = model.get_input_embeddings().weight.detach()

    @torch.no_grad()
    def judge(self, cache: Cache, input_ids: Tensor, attention_mask: Tensor | None = None) -> list[Judged]:
        """Every sequence of `cache` against the tokens `[B, T]` that it should be of."""
        state = readable(cache)
        self._check_shape(state)
        if self.stats.prior is None:
            raise UserError(
                "this operator G knows nothing of tokens: calibrate one that does with "
                "`homeostat cache calibrate`"
            )
        if self._embedding is None:
            raise UserError("tokens are told by the model's embeddings: load_repair(folder, model)")
        self._move(state[0].K.device)
        self._embedding = self._embedding.to(state[0].K.device)
        ids = check_ids(input_ids, state, len(self._embedding))
        return judge(self.stats, self._embedding, state, ids, attention_mask)

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
        since: int = 0,
        input_ids: Tensor | None = None,
        alpha: float | None = None,
    ) -> RepairReport:
        """Repair what `cache` stores, in place; what needs no repair keeps its bits.

        With the tokens of all stored positions, `input_ids` `[B, T]`, blocks of other tokens are seen, too,
        and get their posterior mean. `alpha` is the share of clean blocks for which this may happen; by
        default as few as the calibration text allows.

        While a sequence grows, `since` says where to begin: what is stored before that position was looked at
        already (blocks of 16 positions are looked at as a whole).
        Blind: `suspect` is not looked at. Layers inform each other, so positions that a sliding window has
        dropped from some layers are not judged in the others.
        """
        before = state = readable(cache)
        self._check_shape(state)
        device = state[0].K.device
        self._move(device)
        replaced: list[Record] = []
        if input_ids is not None:
            judged = self.judge(cache, input_ids, attention_mask)
            state, replaced = replace_foreign(self.field, state, judged, alpha)
        real, positions = (
            x[:, state.first :] for x in layout(state.length, state.batch, attention_mask, device)
        )
        older = [state.first - state.start(layer) for layer in self.layers]
        kept = [KV(*(x[..., skip:, :] for x in kv)) for kv, skip in zip(state, older, strict=True)]
        report = Report(self.stats.groups // 2, state.first, older=state.first * state.batch)
        mended: dict[int, KV] = {}
        begin = max(since - state.first, 0) // BLOCK * BLOCK
        for row, start in product(range(state.batch), range(begin, real.shape[1], _TOKENS)):
            places = slice(start, start + _TOKENS)
            piece = [KV(*(x[row, :, places] for x in kv)) for kv in kept]
            where, after, changed = self._piece(
                piece, real[row, places], positions[row, places], report, (row, start)
            )
            for layer in changed.flatten(2).any(-1).any(0).nonzero().flatten().tolist():
                if layer not in mended:
                    mended[layer] = KV(*(x.clone() for x in kept[layer]))
                new, hit = after[:, layer].transpose(0, 1), changed[:, layer].transpose(0, 1)  # [G, n, d]
                for x, fresh, here in zip(mended[layer], new.chunk(2), hit.chunk(2), strict=True):
                    x[row, :, start + where] = torch.where(here, fresh.to(x.dtype), x[row, :, start + where])
        repaired = state.replace(
            {layer: _behind(state[layer], older[layer], kv) for layer, kv in mended.items()}
        )
        write(cache, {i: repaired[i] for i in self.layers if repaired[i].K is not before[i].K})
        report.relative_change = {str(i): _moved(before[i], repaired[i]) for i in self.layers}
        told = report.as_record()
        return told if input_ids is None else RepairReport(told, replaced=replaced)

    def _move(self, device: torch.device) -> None:
        if self.stats.scale.device != device:
            self.stats = self.stats.to(device)
            self.field = Field(self.stats)

    def _piece(
        self, layers: list[KV], real: Tensor, positions: Tensor, report: Report, at: tuple[int, int]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """A piece of one sequence, keys and values `[H_kv, T, d]`: the positions `[n]` that were looked at
        closely, repaired numbers for them `[n, L, G, d]`, and which of these changed."""
        zeros, flips = (name not in self.without for name in ("dropout_zero", "bitflipish_sparse"))
        seen = screen(self.field, layers, real, positions, zeros, flips)
        field = self._at_scale(layers, positions, seen)
        if field is not self.field:
            seen = screen(field, layers, real, positions, zeros, flips)
        report.beyond += int((seen.real & ~seen.known).sum())
        where = seen.chosen.nonzero().squeeze(1)
        if not len(where):
            nothing = positions.new_zeros(0, *self.stats.mean.shape)
            report.add_blocks(seen, where, nothing, where, at)
            return where, nothing, nothing.bool()
        stored = gather([KV(*(x[:, where].unsqueeze(0) for x in kv)) for kv in layers])
        close = seen.take(where)
        after, changed, forgotten = self._repair(
            field, stored, close, positions[where].unsqueeze(0), layers[0].K.dtype, report, at[0]
        )
        report.add_blocks(seen, where, changed[0], seen.block[where[forgotten[0]]], at)
        return where, after[0], changed[0]

    def _at_scale(self, layers: list[KV], positions: Tensor, seen: Screened) -> Field:
        """The field for a piece of a sequence: a head whose sinks and other tokens are all larger by one
        factor is judged at that scale. To mend some of its tokens would only set them apart."""
        sink, where = self.stats.sink, seen.sink.nonzero().squeeze(1)
        if sink is None or not len(where):
            return self.field
        stored = gather([KV(*(x[:, where].unsqueeze(0) for x in kv)) for kv in layers])
        every, at = torch.ones(1, len(where), dtype=torch.bool, device=where.device), positions[where][None]
        tokens = table(stored, every, at, (torch.zeros_like(at), 1), self.stats, torch.zeros_like(sink.mean))
        scale = sinks.common_scale(tokens.x, sink.mean, seen.louder).median(0).values  # [L, G]
        return self.field if bool((scale == 1).all()) else self.field.at_scale(scale)

    def _repair(
        self,
        field: Field,
        stored: Tensor,
        seen: Screened,
        positions: Tensor,
        dtype: torch.dtype,
        report: Report,
        row: int,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Repaired numbers for `stored` `[1, n, L, G, d]`, which of them changed, and which positions were
        given up, `[1, n]`."""
        stats, number = field.stats, seen.block.unsqueeze(0)
        coarse = dtype != torch.float32
        exactly = losses(stats, stored, seen, positions, coarse, self.without)
        done = self._ordinary(field, exactly, seen, positions)
        tokens, found, levels = done.tokens, done.found, done.levels
        where = (tokens.row, tokens.column)

        after, changed = exactly.usable, torch.zeros_like(stored, dtype=torch.bool)
        mended = tokens.stored(tokens.x + stats.mean) * stats.scale.unsqueeze(-1)
        half = exactly.cell[where] * exactly.on_grid[tokens.block].unsqueeze(-1) / 2
        within = torch.clamp(mended - stored[where], -half, half) + stored[where]  # rounding moved it no more
        after[where] = torch.where((half > 0) & ~found.lost, within, mended)
        changed[where] = done.touched
        if bool(exactly.sink.any()):
            self._mend_sinks(stats, after, changed, exactly, positions, number, levels)
        changed |= ~stored.isfinite()  # in padding too: attention multiplies it by 0, and 0 times NaN is NaN

        gone, given = exactly.gone & seen.known, exactly.lost[where]
        report.lost += int((exactly.lost & changed).sum())
        report.outliers += int((found.lost & done.touched).sum()) - int((given & done.touched).sum())
        report.vectors += int(found.wrong.sum())
        report.sinks += int(exactly.sink.sum())
        report.gone += int(gone.sum())
        report.add_noise(torch.where(levels.taken, levels.level, 0.0).unsqueeze(0), row)
        report.add_misfits(done.misfit.unsqueeze(0), done.slope.unsqueeze(0), row)
        return after, changed, gone | done.unknown.any(-1)[number]

    def _ordinary(self, field: Field, exactly: Losses, seen: Screened, positions: Tensor) -> Mended:
        """Ordinary tokens: outliers within their head, then given all heads, then noise, then belief."""
        stats, number, count = field.stats, seen.block.unsqueeze(0), len(seen.active)
        flips, turned = (x not in self.without for x in ("bitflipish_sparse", "orthogonal_rotation"))
        on_grid, never = exactly.on_grid, torch.full_like(stats.scale, torch.inf)
        active = seen.active | near(on_grid.any(-1), stats.reach)
        ordinary = seen.known.unsqueeze(0) & ~exactly.sink & active.any(-1)[number]
        tokens = table(exactly.usable, ordinary, positions, (number, count), stats, stats.mean)
        where = (tokens.row, tokens.column)
        first, given = tokens.x.clone(), exactly.lost[where]
        rounding = noise.rounding(tokens, exactly.cell[where] / stats.scale.unsqueeze(-1), on_grid)
        limit = outliers.IMPOSSIBLE * stats.limit * stats.scale.unsqueeze(-1)
        impossible = (exactly.usable[where].abs() > limit) & ~given & flips
        found = outliers.in_head(
            tokens,
            given,
            active,
            field.head_precision,
            outliers.gross(stats) if flips else never,
            outliers.FAR * stats.strangest[0] if turned else never,
            impossible,
        )
        as_stored = torch.where(found.wrong.unsqueeze(-1), first, tokens.x)
        slope = fit.fits(replace(tokens, x=as_stored), stats, outliers.layers_of(active))
        misfit = fit.misfits(slope.unsqueeze(0))[0] & active.unsqueeze(-1) & turned
        heard = active & ("gaussian" not in self.without)
        loud = outliers.too_loud(tokens, found, heard)
        without, unknown = outliers.discard(field, tokens, found, misfit, loud)
        found.dense |= (on_grid | noise.only_noise(field, tokens, heard, found.lost)) & ~without
        if flips or turned:
            limits = outliers.thresholds(field, flips, turned)
            outliers.across_heads(field, tokens, found, active, first, given, without, limits)
        noisy = heard & ~on_grid.any(-1)
        noise.take_back(field, tokens, found, noisy, first, given | without[tokens.block].unsqueeze(-1))
        levels = noise.estimate(field, tokens, heard, rounding)
        tokens.x = noise.denoise(field, tokens, levels)
        touched = found.lost | levels.taken[tokens.block].unsqueeze(-1)
        if turned:
            here = active[tokens.block]
            beyond = outliers.unbelievable(field, tokens, here, noise.WORTH, touched.any(-1))
            beyond &= ~on_grid[tokens.block]
            tokens.x = tokens.x.masked_fill(beyond.unsqueeze(-1), 0.0)  # the mean
            touched |= beyond.unsqueeze(-1)
        return Mended(tokens, found, levels, touched, misfit, slope, unknown)

    def _mend_sinks(
        self,
        stats: Statistics,
        after: Tensor,
        changed: Tensor,
        exactly: Losses,
        positions: Tensor,
        number: Tensor,
        levels: Noise,
    ) -> None:
        """Sinks against their own template, head by head, at the noise level of the tokens around them."""
        assert stats.sink is not None  # noqa: S101
        lost, sink, blocks = exactly.lost, exactly.sink, (number, len(exactly.on_grid))
        template = stats.sink.mean
        tokens = table(after, sink, positions, blocks, stats, template)
        first = tokens.x.clone()
        P = stats.sink.precision
        gross = torch.full_like(
            stats.scale, torch.inf if "bitflipish_sparse" in self.without else _SINK_OUTLIER
        )
        far = torch.full_like(stats.scale, torch.inf)
        strange = outliers.distance(tokens.x, P) * stats.head_dim > _SINK_OUTLIER**2  # [N, L, G]
        active = torch.zeros(blocks[1], stats.layers, dtype=torch.bool, device=sink.device)
        active[tokens.block] |= (strange | lost[sink].any(-1)).any(-1)
        found = outliers.in_head(tokens, lost[sink], active, P, gross, far)
        level = torch.where(levels.taken, levels.level, 0.0)[tokens.block]  # [N, L, G]
        apart = tokens.x.square().sum(-1) > _TURNED * template.square().sum(-1)
        apart &= (outliers.distance(tokens.x, P) > _SINK_OUTLIER) & (level == 0)
        found.lost |= apart.unsqueeze(-1)
        tokens.x = tokens.x.masked_fill((found.wrong | apart).unsqueeze(-1), 0.0)  # the template itself
        rms = (first + template).square().mean(-1).sqrt()
        left = torch.where(levels.taken, 0.0, noise.common(levels.level))[tokens.block] * rms
        gone = found.wrong | apart
        off = torch.where(gone, first.square().mean(-1).sqrt(), 0.0).unsqueeze(-1)  # of the template
        right = torch.where(
            gone.unsqueeze(-1), off, (first - tokens.x).abs()
        ) <= noise.CHANCE * left.unsqueeze(-1)
        right &= ~lost[sink] & (left > 0).unsqueeze(-1)
        tokens.x = torch.where(right, first, tokens.x)
        found.lost &= ~right
        variance = torch.where(
            exactly.on_grid[tokens.block], level.square(), (level * rms).square() / (1 + level.square())
        )
        noisy = level > 0
        if bool(noisy.any()):
            spread = stats.sink.spread
            eye = torch.eye(stats.head_dim, device=sink.device)
            mended = torch.linalg.solve(spread + variance[..., None, None] * eye, tokens.x.unsqueeze(-1))
            tokens.x = torch.where(noisy.unsqueeze(-1), (spread @ mended).squeeze(-1), tokens.x)
        where = (tokens.row, tokens.column)
        after[where] = tokens.stored(tokens.x + template) * stats.scale.unsqueeze(-1)
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


def _moved(before: KV, after: KV) -> float:
    if all(a is b for a, b in zip(after, before, strict=True)):
        return 0.0
    pairs = [
        (a.float().nan_to_num(), b.float().nan_to_num(0, 0, 0)) for a, b in zip(after, before, strict=True)
    ]
    moved = sum(float((a - b).square().sum()) for a, b in pairs)
    size = sum(float(b.square().sum()) for _, b in pairs)
    return float((moved / size) ** 0.5) if size else 0.0
