"""What a generator is: an asynchronous stream of outputs for a list of requests."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, get_args, runtime_checkable

from homeostat.core.config import ConfigModel


@dataclass(frozen=True)
class Generation:
    """One output of one model for one prompt."""

    contract_id: str
    model: str
    temperature: float
    sample: int
    raw_output: str

    @property
    def cell(self) -> tuple[str, str, float]:
        return self.contract_id, self.model, self.temperature


@dataclass(frozen=True)
class Request:
    """One sample to be generated. `number` is its place in the run; `sample` its place in its cell."""

    number: int
    contract_id: str
    prompt: str
    temperature: float
    sample: int
    seed: int


@dataclass(frozen=True)
class Output:
    """The text a request was answered with."""

    request: Request
    text: str


@dataclass(frozen=True)
class Failure:
    """A request without an answer. A resumed run asks again."""

    request: Request
    error: str


class GenerationError(Exception):
    """An error that trying again cannot fix."""


class Generator(Protocol):
    """Answers requests. `name` is the model's name in the records."""

    @property
    def name(self) -> str: ...

    def generate(self, requests: Sequence[Request]) -> AsyncGenerator[Output | Failure, None]:
        """Every request exactly once, in any order, as soon as it is done."""


SOURCES: dict[str, type[Source]] = {}  # by the `kind` that configurations use


class Source(ConfigModel):
    """A `generator:` section of a configuration: what to ask, and how to make the generator that asks it."""

    loads_model: ClassVar[bool] = False  # into this process

    if TYPE_CHECKING:
        kind: str

        @property
        def name(self) -> str:
            """The model's name in the records."""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        SOURCES[get_args(cls.model_fields["kind"].annotation)[0]] = cls

    def make(self) -> Generator:
        """The generator; heavy imports happen here."""
        raise NotImplementedError

    def check(self, reachable: bool = True) -> None:
        """Refuse what cannot work, without loading a model; with `reachable`, an endpoint must answer."""
        self.make()


@runtime_checkable
class Watched(Protocol):
    """A generator that can tell how far it is between two outputs."""

    def watch(self, far: Callable[[float], None] | None) -> None:
        """Tell `far` how many samples' worth of work is under way; None ends that."""


def sample_seed(seed: int, contract_id: str, model: str, temperature: float, sample: int) -> int:
    """The seed of one sample. It does not depend on what else is generated, or in which batches."""
    text = f"{seed}|{contract_id}|{model}|{temperature!r}|{sample}"
    return int.from_bytes(hashlib.sha256(text.encode("utf-8")).digest()[:4], "big") & 0x7FFFFFFF
