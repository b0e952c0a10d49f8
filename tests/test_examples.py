"""The notebooks in `examples/` run from the first cell to the last, and are stored without outputs."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyt.sandbox import capability

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.ipynb"))


@pytest.mark.model
@pytest.mark.timeout(900)
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    if path.stem == "output" and not capability().contained:
        pytest.skip("this system cannot contain programs")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(notebook, timeout=800, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [
        o for cell in notebook.cells for o in cell.get("outputs", []) if "text/html" in o.get("data", {})
    ]
    assert len(shown) >= 2, "results show themselves as tables"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_notebooks_are_stored_without_outputs(path: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in notebook.cells)


def test_there_is_a_notebook_for_each_system() -> None:
    assert [path.stem for path in EXAMPLES] == ["output", "state"]
