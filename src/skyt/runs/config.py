"""Settings of skyt's commands. What can change a record is here; how fast it is made (workers) is not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from homeostat.core.config import ConfigModel
from skyt.contracts.defaults import DEFAULT_INPUTS, DEFAULT_SAMPLES, DEFAULT_TAU, DEFAULT_TEMPERATURE
from skyt.generators.config import GeneratorConfig
from skyt.generators.local import LocalGenerator

Samples = Annotated[int, Field(ge=1, le=1_000_000)]
Temperature = Annotated[float, Field(ge=0.0, le=10.0)]


class MeasureConfig(ConfigModel):
    """How samples are judged, repaired and counted.

    The contracts' hashes and the rules' version are filled in by the program: a run is resumed only with the
    contracts and rules it was started with.
    """

    told: ClassVar[Mapping[str, str]] = {
        "contract_hashes": "the contract {} has changed",
        "rules_version": "the rewriting rules have changed",
        "file_sha256": "the file of generations is another one",
        "canons_sha256": "the file of canons is another one",
    }

    tau: float = Field(DEFAULT_TAU, ge=0.0, le=1.0, description="threshold of P_tau")
    evidence: Literal["rewritten", "equivalent"] = Field(
        "rewritten",
        description="minimum evidence for replacing a sample; a contract's own wins",
    )
    inputs: int = Field(
        DEFAULT_INPUTS, ge=1, description="generated inputs on which a sample is compared with the canon"
    )
    seed: int = Field(0, ge=0, description="seeds sampling and generated inputs")
    distance: str = Field("levenshtein", description="a registered distance")
    allow_uncontained: bool = Field(
        False, description="run generated code uncontained where the platform cannot contain it"
    )
    trust_canons: bool = Field(
        False, description="use canons that the oracle rejects or whose contract changed; recorded"
    )
    contract_hashes: dict[str, str] = Field(default_factory=dict)
    rules_version: str = ""


class BatchConfig(MeasureConfig):
    """What a batch of outputs can choose besides: which of them becomes the canon."""

    canon: Literal["first", "modal"] = Field(
        "first",
        description="what becomes the canon: the first compliant output, or the most frequent normal form",
    )


class RunConfig(BatchConfig):
    """`homeostat code run`: one prompt, one model, one temperature."""

    grows: ClassVar[tuple[str, ...]] = ("n",)

    contract: str
    n: Samples = DEFAULT_SAMPLES
    temperature: Temperature = DEFAULT_TEMPERATURE
    generator: GeneratorConfig = LocalGenerator()


class SuiteConfig(BatchConfig):
    """`homeostat code suite`: every prompt with every model at every temperature."""

    grows: ClassVar[tuple[str, ...]] = ("n",)

    contracts: Annotated[list[str], Field(min_length=1)]
    generators: Annotated[list[GeneratorConfig], Field(min_length=1)]
    temperatures: Annotated[list[Temperature], Field(min_length=1)]
    n: Samples = DEFAULT_SAMPLES


class ReplayConfig(BatchConfig):
    """`homeostat code replay`: recorded generations; files are known by their content."""

    file_sha256: str
    canons_sha256: str | None = None


class WrapConfig(MeasureConfig):
    """`skyt.wrap`: the middleware."""

    contract: str
    model: str = "callable"
    temperature: Temperature = 0.0
