"""Settings of skyt's commands. What can change a record is here; how fast it is made (workers) is not."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from homeostat.config import ConfigModel
from homeostat.models import ModelConfig
from skyt.metrics import DEFAULT_TAU

Temperature = Annotated[float, Field(ge=0.0, le=10.0)]


class MeasureConfig(ConfigModel):
    """How samples are judged, repaired and counted.

    The contracts' hashes and the rules' version are filled in by the program: a run is resumed only with the
    contracts and rules it was started with.
    """

    tau: float = Field(DEFAULT_TAU, ge=0.0, le=1.0, description="threshold of P_tau")
    evidence: Literal["rewritten", "equivalent"] = Field(
        "rewritten", description="the weakest evidence on which a sample is replaced by the canon"
    )
    inputs: int = Field(1000, ge=1, description="generated inputs for `equivalent`")
    seed: int = Field(0, ge=0, description="seeds sampling and generated inputs")
    distance: str = Field("levenshtein", description="a registered distance")
    allow_uncontained: bool = Field(
        False, description="run generated code uncontained where the platform cannot contain it"
    )
    contract_hashes: dict[str, str] = Field(default_factory=dict)
    rules_version: str = ""


class LocalGenerator(ConfigModel):
    """A transformers model on this machine."""

    kind: Literal["local"] = "local"
    model: ModelConfig = ModelConfig()
    max_new_tokens: int = Field(320, ge=1)
    top_p: float = Field(1.0, gt=0.0, le=1.0)
    batch_size: int = Field(8, ge=1, description="samples at a time; does not change them")

    @property
    def name(self) -> str:
        return self.model.name


class OpenAIGenerator(ConfigModel):
    """Any endpoint that speaks the OpenAI chat-completions protocol."""

    kind: Literal["openai"]
    name: str = Field(min_length=1, description="the model's name at the endpoint")
    base_url: str = Field("https://api.openai.com/v1", pattern=r"^https?://")
    api_key_env: str | None = Field("OPENAI_API_KEY", description="variable that holds the key; null: none")
    max_new_tokens: int = Field(1024, ge=1)
    top_p: float = Field(1.0, gt=0.0, le=1.0)
    concurrency: int = Field(8, ge=1)
    timeout_s: float = Field(60.0, gt=0)
    retries: int = Field(6, ge=0, description="further attempts after the first")
    backoff_s: float = Field(0.5, gt=0, description="first wait; doubles each time, with jitter")
    send_seed: bool = Field(True, description="some servers reject the `seed` field")


class RecordedGenerator(ConfigModel):
    """Generations recorded earlier, as JSON lines (may be gzipped)."""

    kind: Literal["recorded"]
    name: str = Field(min_length=1, description="the model name in the file's rows")
    file: str


class CallableGenerator(ConfigModel):
    """A Python function `prompt -> text`, named as `package.module:function`."""

    kind: Literal["callable"]
    target: str = Field(pattern=r"^[\w.]+:\w+$")
    concurrency: int = Field(1, ge=1)

    @property
    def name(self) -> str:
        return self.target


GeneratorConfig = Annotated[
    LocalGenerator | OpenAIGenerator | RecordedGenerator | CallableGenerator, Field(discriminator="kind")
]


class RunConfig(MeasureConfig):
    """`homeostat code run`: one prompt, one model, one temperature."""

    contract: str
    n: int = Field(20, ge=1)
    temperature: Temperature = 0.7
    generator: GeneratorConfig = LocalGenerator()


class SuiteConfig(MeasureConfig):
    """`homeostat code suite`: every prompt with every model at every temperature."""

    contracts: Annotated[list[str], Field(min_length=1)]
    generators: Annotated[list[GeneratorConfig], Field(min_length=1)]
    temperatures: Annotated[list[Temperature], Field(min_length=1)]
    n: int = Field(20, ge=1)


class ReplayConfig(MeasureConfig):
    """`homeostat code replay`: recorded generations; files are known by their content."""

    file_sha256: str
    canons_sha256: str | None = None


class WrapConfig(MeasureConfig):
    """`skyt.wrap`: the middleware."""

    contract: str
    model: str = "callable"
    temperature: Temperature = 0.0
