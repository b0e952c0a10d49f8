"""Any Python callable `prompt -> text` as a generator; plain or async, several calls at a time if wished."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import sys
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from homeostat.core.errors import UserError
from skyt.generators.base import Failure, Output, Request, Source


class CallableGenerator(Source):
    """A Python function `prompt -> text`, named as `package.module:function`; the current folder counts."""

    kind: Literal["callable"]
    target: str = Field(pattern=r"^[\w.]+:\w+$")
    concurrency: int = Field(1, ge=1)

    @property
    def name(self) -> str:
        return self.target

    def make(self) -> Function:
        module, _, name = self.target.partition(":")
        here = str(Path.cwd())
        if here not in sys.path:
            sys.path.append(here)
        try:
            function = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as error:
            raise UserError(f"generator target {self.target!r}: {error}; looked in {here} too") from None
        return Function(function, name=self.name, concurrency=self.concurrency)


class Function:
    """Calls `function(prompt)` for each request, `concurrency` at a time."""

    def __init__(self, function: Any, name: str = "callable", concurrency: int = 1) -> None:
        if not callable(function):
            raise UserError(f"generator {name!r}: {function!r} is not callable")
        self.name = name
        self._function = function
        self._concurrency = concurrency

    async def generate(self, requests: Sequence[Request]) -> AsyncGenerator[Output | Failure, None]:
        limit = asyncio.Semaphore(self._concurrency)

        async def answer(request: Request) -> Output | Failure:
            async with limit:
                try:
                    text = await self._call(request.prompt)
                except Exception as error:  # the user's function: whatever it raises is its answer
                    return Failure(request, f"{type(error).__name__}: {error}")
            if not isinstance(text, str):
                return Failure(request, f"the function returned {type(text).__name__}, not str")
            return Output(request, text)

        tasks = [asyncio.ensure_future(answer(request)) for request in requests]
        try:
            for done in asyncio.as_completed(tasks):
                yield await done
        finally:
            for task in tasks:
                task.cancel()

    async def _call(self, prompt: str) -> Any:
        if inspect.iscoroutinefunction(self._function):
            return await self._function(prompt)
        return await asyncio.to_thread(self._function, prompt)
