"""An installed wheel, run from another directory, finds what comes with the program."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FIND = """
import homeostat
from homeostat.core.resources import find, resource, resource_root
for name in ("configs", "contracts", "schemas", "data/offline"):
    folder = resource(name)
    assert any(folder.iterdir()), folder
print(find("smoke", "configs"))
print(homeostat.__file__)
print(resource_root())
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel built from this tree and unpacked by pip, as an installation would be."""
    pytest.importorskip("hatchling")
    wheels, target = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    build = ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(wheels), str(ROOT)]
    subprocess.run([*pip, *build], check=True, capture_output=True)
    (wheel,) = wheels.glob("homeostat_llm-*.whl")
    subprocess.run(
        [*pip, "install", "--no-deps", "--target", str(target), str(wheel)], check=True, capture_output=True
    )
    return target


def test_an_installed_wheel_finds_its_resources_from_anywhere(installed: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    command = [sys.executable, "-c", FIND]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    config, package, root = done.stdout.split("\n")[:3]
    assert all(path.startswith(str(installed)) for path in (config, package, root))


def test_the_wheel_carries_every_resource_of_the_checkout(installed: Path) -> None:
    packed = installed / "homeostat" / "_resources"
    for name in ("configs", "contracts", "schemas", "data/offline"):
        here = {p.relative_to(ROOT / name) for p in (ROOT / name).rglob("*") if p.is_file()}
        there = {p.relative_to(packed / name) for p in (packed / name).rglob("*") if p.is_file()}
        assert here == there
