"""How pages call things: a readable name for each technical one, and what it means on hover or click.

Terms come from the glossary. Names of defences, kinds of damage and tasks are here, in the words of the
figures. Systems add explanations of their own names, such as rewriting rules, by the entry point below.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache
from importlib.metadata import entry_points

from homeostat.report import glossary

ENTRY_POINT = "homeostat.explanations"  # functions without arguments that return {name: explanation}
_ORACLE = ":oracle"
_NAMES = {
    "none": ("no defence", "The model reads the cache as it is."),
    "best_heuristic": ("best heuristic", "The heuristic chosen on one half of the examples, reported on the other."),
    "reset_clear": ("reset", "A heuristic: the protected layers are set to 0."),
    "smoothing": ("smoothing", "A heuristic: each vector is mixed with the one before it."),
    "masking_dropout": ("random masking", "A heuristic: a random tenth of the numbers is set to 0, and the rest is scaled up."),
    "clipping_renorm": ("clipping", "A heuristic: numbers that are too large are cut off."),
    "A": ("A low-rank", "A trained repair: a low-rank correction of each vector, weighed by the query."),
    "B": ("B shrinkage", "A trained repair: each vector shrinks along learned directions and never grows."),
    "C": ("C shared", "A trained repair that all layers share."),
    "G": ("G calibrated", glossary.explain("G")),
    "guard": ("guard", glossary.explain("guard")),
    "G+guard": ("G + guard", "The guard restores what it can, and operator G repairs the rest."),
    "baseline": ("no defence", "The model reads the cache as it is."),
    "heuristics": ("best heuristic", "The heuristic chosen on one half of the examples, reported on the other."),
    "cachemedic": ("CacheMedic++", "The repair that this run trained or calibrated."),
    "lambda_contr_0": ("CacheMedic++, λ_contr = 0", "The same repair, trained without its contraction loss."),
    "clean": ("clean", "The cache as the model wrote it, not damaged."),
    "corrupted": ("damaged", "The damaged cache, without a repair."),
    "gaussian": ("Gaussian noise", "Damage: noise is added to every number."),
    "dropout_zero": ("zeros", "Damage: random numbers are set to 0."),
    "orthogonal_rotation": ("rotation", "Damage: vectors are turned into another direction of the same length."),
    "bitflipish_sparse": ("sparse bit flips", "Damage: a few numbers jump, as if a high bit had flipped."),
    "quant_noise": ("coarse quantisation", "Damage: numbers are rounded to very few bits."),
    "contiguous_overwrite": ("overwritten window", "Damage: a window of the cache is replaced by another text's."),
    "wikitext2.ppl": ("Wikitext-2 perplexity", glossary.explain("perplexity")),
    "sst2.accuracy": ("SST-2 accuracy", "Share of short film reviews whose sentiment is named correctly."),
    "needle.accuracy": ("needle accuracy", glossary.explain("needle")),
    "score": ("robustness score", "The mean of 1/perplexity and the accuracies of all tasks."),
    "ppl_clean": ("clean perplexity", "Perplexity on Wikitext-2 with an undamaged cache. Lower is better."),
    "fingerprints": ("fingerprints", glossary.explain("fingerprint")),
    "compliant_post": ("correct after repair", "The share of samples that the oracle accepts after repair."),
    "compliant_pre": ("correct before repair", "The share of samples that the oracle accepts before repair."),
    "P_tau_pre": ("close before repair", "The share of samples within tau of the canon before repair."),
    "P_tau_post": ("close after repair", "The share of samples within tau of the canon after repair."),
    "rescue_rate": ("rescue rate", glossary.explain("rescue rate")),
    "N": ("samples", glossary.explain("sample")),
    "oracle_pass": ("correct programs", "The share of programs that the oracle accepts."),
    "relative_throughput": ("relative speed", glossary.explain("throughput")),
    "tokens_per_s": ("tokens per second", "How many tokens the model writes in a second with this defence."),
    "repair_s": ("repair (s)", "Seconds that the repair itself takes."),
    "decode_s": ("decoding (s)", "Seconds that writing the tokens takes."),
    "wall_s": ("total (s)", "Seconds from start to end."),
    "delta norm": ("size of the disturbance (delta)", glossary.explain("delta")),
    "identical": ("identical", "The sample equalled the canon as it was generated."),
    "rewritten": ("rewritten", "Rules that keep behaviour brought the sample and the canon to one normal form."),
    "equivalent": ("equivalent", "Testing on many inputs found no difference, so the canon was put in its place."),
    "replace_by_canon": ("replaced by the canon", "Testing found no difference between the two programs."),
}  # fmt: skip


def number(value: float) -> str:
    """A number in a sentence, as the page's script writes it."""
    size = abs(value)
    return f"{value:,.0f}" if size >= 1000 else f"{value:.{1 if size >= 100 else 2 if size >= 10 else 3}f}"


def label(name: str) -> str:
    """The readable name, or the technical one where there is no other."""
    if name.endswith(_ORACLE):
        return f"{label(name.removesuffix(_ORACLE))} (told the mask)"
    if name in _NAMES:
        return _NAMES[name][0]
    found = glossary.find(name)
    return found.name if found and found.name and name == found.term else name


@cache
def page_terms() -> dict[str, tuple[str, str]]:
    """Every name that a page may show, as (readable name, explanation)."""
    known = {
        spelling: (label(spelling), f"{term.short} {term.more}".strip())
        for term in glossary.terms()
        for spelling in (term.term, term.name, *term.also)
        if spelling
    }
    known |= _NAMES
    masks = [name for name in _NAMES if name in ("smoothing", "masking_dropout", "reset_clear", "clipping_renorm", "A", "B", "C", "G")]  # fmt: skip
    told = " It is told which positions were damaged, which no real defence can know."
    return known | {f"{n}{_ORACLE}": (label(f"{n}{_ORACLE}"), _NAMES[n][1] + told) for n in masks}


def explanations(names: Collection[str]) -> dict[str, str]:
    """What the systems say about these names, such as the rules that repaired a sample."""
    known = _from_systems() if names else {}
    return {name: known[name] for name in names if name in known}


@cache
def _from_systems() -> dict[str, str]:
    found: dict[str, str] = {}
    for entry in entry_points(group=ENTRY_POINT):
        provider: Callable[[], dict[str, str]] = entry.load()
        found |= provider()
    return found
