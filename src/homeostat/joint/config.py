"""Settings of the joint experiment, and the arms they span."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import Field

from cachemedicpp.corruption.config import AxesConfig, CorruptionConfig, CorruptionType
from cachemedicpp.tasks.config import DataConfig
from homeostat.core.config import ConfigModel
from homeostat.core.models import ModelConfig
from homeostat.core.resources import find
from skyt.contracts.contract import Contract, load_contract
from skyt.runs.config import MeasureConfig

CLEAN = "clean"


@dataclass(frozen=True)
class Arm:
    """One condition: a severity of damage and what was done about it. Severity 0 is the clean arm."""

    epsilon: float
    defence: str

    @property
    def label(self) -> str:
        return CLEAN if self.epsilon == 0 else f"{self.defence} @ {self.epsilon:g}"


class JointConfig(ConfigModel):
    """`homeostat joint CONFIG`: contracts × arms × samples."""

    seed: int = Field(0, ge=0)
    model: ModelConfig = ModelConfig()
    contracts: tuple[str, ...] = Field(("is_even", "sum_list", "factorial"), min_length=1)
    contracts_folder: str | None = Field(
        "contracts/easy", description="a folder of contracts besides the twelve; its own win on equal ids"
    )
    prompt_suffix: str = Field(" Answer with the code only.", description="added to every contract's prompt")
    samples: int = Field(20, ge=1, description="generations of each contract in each arm")
    temperature: float = Field(0.2, ge=0.0, le=10.0)
    max_new_tokens: int = Field(128, ge=1)
    stop_after_code: bool = Field(True, description="a sample ends with its first complete fence of code")
    batch_size: int = Field(20, ge=1, description="samples at a time")
    type: CorruptionType = "gaussian"
    epsilons: tuple[float, ...] = Field((0.16, 0.32, 0.64), min_length=1)
    defences: tuple[str, ...] = Field(
        ("none", "reset_clear", "smoothing", "masking_dropout", "clipping_renorm", "G", "guard"),
        min_length=1,
        description="none, heuristics by name, G, guard, or the folder of a saved operator",
    )
    corruption: CorruptionConfig = CorruptionConfig(axes=AxesConfig(head_mode="all", N_recent=8))
    data: DataConfig = Field(
        DataConfig(use_offline=True), description="where G's calibration text comes from"
    )
    calibration_windows: int = Field(64, ge=16)
    calibration_len: int = Field(192, ge=16)
    measure: MeasureConfig = MeasureConfig()

    def load_contracts(self) -> dict[str, Contract]:
        """The contracts by id, from the user's folder or from those that come with the program."""
        folder = find(self.contracts_folder) if self.contracts_folder else None
        return {name: load_contract(name, folder) for name in self.contracts}

    @property
    def arms(self) -> list[Arm]:
        """The clean arm first: the canons come from it."""
        return [Arm(0.0, "none"), *(Arm(e, d) for e in self.epsilons for d in self.defences)]
