"""Settings of the service, from a YAML file, `--set` and a few options."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from homeostat.core.config import ConfigModel
from homeostat.core.models import ModelConfig
from skyt.runs.config import MeasureConfig


class Policy(ConfigModel):
    """What is done with a request that matches a contract."""

    mode: Literal["observe", "repair", "enforce"] = Field(
        "repair",
        description="observe: record only; repair: answer with the canon where the evidence allows it; "
        "enforce: repair, and on_failure: raise",
    )
    on_failure: Literal["return", "retry", "raise"] | None = Field(
        None,
        description="where an output does not comply: return it as it is (the default), retry: ask the "
        "upstream again and return the last output, or raise: ask again and answer 422 in the end",
    )
    attempts: int = Field(3, ge=1, le=21, description="retry and raise: requests to the upstream in all")
    evidence: Literal["rewritten", "equivalent"] = Field(
        "rewritten",
        description="minimum evidence for replacing an output; a contract's own wins",
    )
    answer: Literal["fenced", "plain"] = Field(
        "fenced", description="canonical code in chat answers: in a Markdown fence, or bare"
    )

    @model_validator(mode="after")
    def _observe_changes_nothing(self) -> Self:
        if self.mode == "observe" and self.on_failure not in (None, "return"):
            raise ValueError(f"mode observe records only: leave out on_failure {self.on_failure!r}")
        return self

    @property
    def failure(self) -> Literal["return", "retry", "raise"]:
        return self.on_failure or ("raise" if self.mode == "enforce" else "return")

    @property
    def tries(self) -> int:
        return 1 if self.failure == "return" else self.attempts


class HttpUpstream(ConfigModel):
    """Any OpenAI-compatible endpoint."""

    kind: Literal["http"]
    base_url: str = Field(pattern=r"^https?://", description="with its version path, e.g. https://host/v1")
    model: str | None = Field(None, description="the model behind the aliases skyt/<contract>")
    api_key_env: str | None = Field(
        None,
        description="environment variable with the upstream's key; none: the client's own key is sent on",
    )
    connect_timeout_s: float = Field(5.0, gt=0)
    attempt_timeout_s: float = Field(120.0, gt=0, description="longest silence of the upstream")
    retries: int = Field(3, ge=0, description="further attempts after 429, 5xx and broken connections")
    backoff_s: float = Field(0.25, gt=0, description="first wait; doubles each time, with jitter")
    max_connections: int = Field(256, ge=1)
    max_answer_bytes: int = Field(32 * 2**20, ge=1024)


class LocalUpstream(ConfigModel):
    """A transformers model inside the service, one request at a time."""

    kind: Literal["local"] = "local"
    model: ModelConfig = ModelConfig()
    max_new_tokens: int = Field(320, ge=1, description="when the request does not say")
    max_waiting: int = Field(32, ge=0, description="requests waiting for the model before 429")
    threads: int | None = Field(
        None, ge=1, description="processor threads of the model; none: torch's choice"
    )


class Limits(ConfigModel):
    """Bounds on what one client can make the service hold."""

    max_body_bytes: int = Field(4 * 2**20, ge=1024)
    max_header_bytes: int = Field(64 * 2**10, ge=1024)
    header_timeout_s: float = Field(10.0, gt=0, description="for a request's headers to arrive")
    body_timeout_s: float = Field(30.0, gt=0, description="for a request's body to arrive")
    request_timeout_s: float = Field(300.0, gt=0, description="for everything, retries included")
    max_active: int = Field(128, ge=1, description="requests worked on at once")
    max_waiting: int = Field(256, ge=0, description="requests waiting for that before 429")
    max_connections: int = Field(2048, ge=1)
    max_n: int = Field(32, ge=1, description="choices of one anchored request")
    judge_s: float = Field(
        30.0, gt=0, description="for judging and repairing one sample, then it is not judged"
    )
    judge_busy_s: float = Field(2.0, gt=0, description="the same while other samples wait for a judge")
    slow_judges: int = Field(
        6, ge=0, description="further judges, started in the background: slow samples keep no one waiting"
    )
    shutdown_s: float = Field(10.0, ge=1, description="from SIGTERM to the end, whatever is running")
    per_key_per_minute: int | None = Field(
        None, ge=1, description="requests of one key in any minute; a key may have a number of its own"
    )


class Retention(ConfigModel):
    """Which samples are kept. Canons and metric snapshots always are."""

    days: float | None = Field(None, gt=0)
    samples: int | None = Field(None, ge=1, description="per contract")


class ServeConfig(ConfigModel):
    """`homeostat code serve`."""

    host: str = "127.0.0.1"
    port: int = Field(8080, ge=0, le=65535, description="0: any free one")
    database: str = "skyt.sqlite"
    upstream: Annotated[HttpUpstream | LocalUpstream, Field(discriminator="kind")] = LocalUpstream()
    policy: Policy = Policy()
    policies: dict[str, Policy] = Field(default_factory=dict, description="by contract id")
    measure: MeasureConfig = MeasureConfig()
    limits: Limits = Limits()
    retention: Retention = Retention()
    allowed_hosts: tuple[str, ...] = Field((), description="Host headers accepted beside the bound address")
    allowed_origins: tuple[str, ...] = Field(
        (), description="web pages that may send requests, as https://host; the service's own always may"
    )
    snapshot_s: float = Field(15.0, gt=0, description="how often metrics are kept for the page's history")
    canons_from: Literal["keys", "anyone"] = Field(
        "keys",
        description="whose outputs may become a canon; anyone: also those of requests without an API key, "
        "while the service has none",
    )
    judges: int = Field(2, ge=1, description="processes that judge samples")
    durability: Literal["full", "process"] = Field(
        "full", description="full: a sample is synced to the disk before it is answered for"
    )
    tracing: bool = Field(
        False, description="send OpenTelemetry spans, where the OTEL_… variables say (extra `otel`)"
    )
    log_prompts: bool = Field(False, description="write request and response bodies to the log")

    def policy_of(self, contract_id: str) -> Policy:
        return self.policies.get(contract_id, self.policy)
