"""Every defence by its name: no defence, the heuristics, the operators and the guard.

A heuristic or an operator is one file: a registered class, or a registered function that builds one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from cachemedicpp.repair.base import Repair
from homeostat.core.config import ConfigModel
from homeostat.core.records import Record
from homeostat.core.registry import Registry, Shown

if TYPE_CHECKING:
    from cachemedicpp.cache.state import Geometry
    from cachemedicpp.repair.config import RepairConfig
    from cachemedicpp.repair.operators.trained import Trained

Role = Literal["none", "heuristic", "safe", "operator", "variant", "guard"]
R = TypeVar("R", bound=type[Repair])


@dataclass(frozen=True)
class DefenceKind:
    """What is known of a defence. Operators are trained (`untrained` builds one) or calibrated."""

    name: str
    role: Role
    repair: type[Repair] | None = None  # made from layers and, if it has such fields, axes and levels
    untrained: Callable[[RepairConfig, Geometry], Trained] | None = None
    load: Callable[[Path, Record], Repair] | None = None  # from a folder with its card
    settings: type[ConfigModel] | None = None  # its keys in the section `repair:`
    about: str = ""

    @property
    def takes(self) -> set[str]:
        """What it is made from, beside the layers."""
        kind = self.repair
        return {f.name for f in fields(kind)} & {"axes", "levels"} if is_dataclass(kind) else set()


DEFENCES: Registry[DefenceKind] = Registry(
    "defence", "cachemedicpp.repair", "cachemedicpp.repair.heuristics", "cachemedicpp.repair.operators"
)


def register(
    name: str, label: str = "", means: str = "", *, role: Role = "heuristic", order: int = 100, **look: Any
) -> Callable[[R], R]:
    """Evaluate a repair beside the others, under `name`. Pages and figures call it `label`."""

    def add(cls: R) -> R:
        cls.name = name
        shown = Shown(role, label or name, means, order=order, **look)
        about = " ".join((cls.__doc__ or "").split())
        DEFENCES.add(name, DefenceKind(name, role, cls, about=about), shown)
        return cls

    return add


def trained(
    name: str,
    label: str,
    means: str,
    *,
    colour: int,
    order: int,
    settings: type[ConfigModel] | None = None,
) -> Callable[[Callable[[RepairConfig, Geometry], Trained]], Any]:
    """Let `repair.family` name an operator that is trained; the function builds it as it starts."""

    def add(build: Callable[[RepairConfig, Geometry], Trained]) -> Any:
        keys = tuple(settings.model_fields) if settings else ()
        about = "a trained operator: cache train"
        kind = DefenceKind(name, "operator", None, build, _load_trained, settings, about)
        DEFENCES.add(name, kind, Shown("trained", label, means, colour=colour, order=order, keys=keys))
        return build

    return add


def _load_trained(folder: Path, card: Record) -> Repair:
    from cachemedicpp.repair.operators.store import load

    return load(folder, card)


def _load_gaussian(folder: Path, card: Record) -> Repair:
    from cachemedicpp.repair.gaussian.store import load

    return load(folder, card)


def _add(kind: DefenceKind, label: str, means: str = "", **look: Any) -> None:
    DEFENCES.add(kind.name, kind, Shown(kind.role, label, means, **look))


_add(
    DefenceKind("none", "none", about="no defence: what the damage does by itself"),
    "no defence",
    "The model reads the cache as it is.",
    colour=6,
    order=4,
)
_about = "repairs blind from calibrated statistics: homeostat cache calibrate"
_add(
    DefenceKind("G", "operator", load=_load_gaussian, about=_about),
    "G calibrated",
    term="G",
    colour=2,
    order=20,
)
_about = "knows by fingerprints what changed and recomputes exactly that"
_add(DefenceKind("guard", "guard", about=_about), "guard", term="guard", colour=1, order=21)
_add(
    DefenceKind("G_without", "variant", about="operator G without its tests for the damage held out"),
    "G without its detectors",
    "Operator G, its tests for the damage that is held out switched off.",
    colour=7,
    order=23,
)
