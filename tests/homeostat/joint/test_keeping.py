"""Code that is written in an arm is kept sample by sample, so an interrupted arm goes on."""

from __future__ import annotations

from collections.abc import Callable, Container
from pathlib import Path
from typing import Any

import pytest

from cachemedicpp.repair.defences import Defence
from homeostat.core.progress import Bar
from homeostat.joint.config import Arm
from homeostat.joint.experiment import _write_arm
from skyt.generators.outputs import OutputFile


class Scribe:
    """Writes five samples, and is interrupted after the third the first time."""

    def __init__(self) -> None:
        self.written: list[int] = []

    def write(
        self, arm: Arm, defence: Defence, known: Container[int], ended: Callable[[int, str], None], far: Any
    ) -> None:
        for sample in (4, 0, 2, 1, 3):
            if sample in known:
                continue
            if len(self.written) == 3:
                self.written.append(-1)
                raise KeyboardInterrupt
            self.written.append(sample)
            ended(sample, f"text {sample}")


def test_an_interrupted_arm_goes_on_from_the_samples_it_has(tmp_path: Path) -> None:
    scribe, kept = Scribe(), OutputFile(tmp_path / "generations" / "is_even-000.jsonl")
    bar = Bar("writing code", total=5)
    with pytest.raises(KeyboardInterrupt):
        _write_arm(lambda: scribe, Arm(0.0, "none"), Defence(), kept, bar)  # type: ignore[arg-type,return-value]
    assert sorted(kept.read()) == [0, 2, 4] and bar.done == 3
    bar = Bar("writing code", total=5)
    texts = _write_arm(lambda: scribe, Arm(0.0, "none"), Defence(), kept, bar)  # type: ignore[arg-type,return-value]
    assert texts == [f"text {n}" for n in range(5)] and bar.done == 5
    assert scribe.written == [4, 0, 2, -1, 1, 3]
