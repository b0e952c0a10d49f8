"""A file of outputs: lines `{"sample": …, "text": …}`, each written as soon as it is there, in any order."""

from __future__ import annotations

import json
import os
from pathlib import Path

from homeostat.core.errors import UserError


class OutputFile:
    """Outputs of one cell on disk, by the number of the sample. None is asked for twice."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[int, str]:
        """Outputs by sample. A torn last line (a process died writing it) does not count."""
        outputs: dict[int, str] = {}
        if not self.path.exists():
            return outputs
        for line in self.path.read_bytes().split(b"\n"):
            try:
                row = json.loads(line)
                outputs.setdefault(int(row["sample"]), str(row["text"]))
            except (ValueError, KeyError, TypeError):
                continue
        return outputs

    def append(self, sample: int, text: str) -> None:
        """One write, which starts on a fresh line even after a torn one."""
        line = b"\n" + json.dumps({"sample": sample, "text": text}).encode("ascii") + b"\n"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
            try:
                if os.write(handle, line) != len(line):
                    raise OSError(28, "No space left on device")
            finally:
                os.close(handle)
        except OSError as error:
            raise UserError(f"cannot write {self.path}: {error.strerror or error}") from error
