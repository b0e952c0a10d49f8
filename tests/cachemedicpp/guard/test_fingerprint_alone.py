"""Engines live in environments of their own: fingerprints must not drag the rest of the program along."""

import subprocess
import sys

ALONE = """
import sys

class Forbid:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"transformers", "pydantic", "safetensors", "typer", "yaml", "numpy"}:
            raise ModuleNotFoundError(f"{name} is not here")

sys.meta_path.insert(0, Forbid())
import cachemedicpp.guard.fingerprint as f
import torch

x = torch.arange(2 * 3 * 8 * 4, dtype=torch.float32).view(2, 3, 8, 4)
print(f.digest(x, f.weights(x, 8)).sum().item())
assert not {"transformers", "homeostat.core.models", "cachemedicpp.cache"} & set(sys.modules)
"""


def test_fingerprints_need_nothing_but_torch_and_are_the_same_without_numpy() -> None:
    import torch

    from cachemedicpp.guard import fingerprint

    x = torch.arange(2 * 3 * 8 * 4, dtype=torch.float32).view(2, 3, 8, 4)
    here = int(fingerprint.digest(x, fingerprint.weights(x, 8)).sum())
    alone = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, check=False)
    assert alone.returncode == 0, alone.stderr
    assert int(alone.stdout) == here
