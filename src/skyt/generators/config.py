"""The `generator:` section of a configuration: one small class per kind of generator."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from homeostat.core.config import ConfigModel
from homeostat.core.models import ModelConfig


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
