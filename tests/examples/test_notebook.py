"""The notebook runs from its first to its last cell, on the log next to it."""

import re
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat", reason="kafkaframes[notebook] is not installed")
nbclient = pytest.importorskip("nbclient", reason="kafkaframes[notebook] is not installed")
pytest.importorskip("ipykernel", reason="kafkaframes[notebook] is not installed")
pytest.importorskip("matplotlib", reason="kafkaframes[notebook] is not installed")

EXAMPLES = Path(__file__).parents[2] / "examples"
NOTEBOOK = EXAMPLES / "explore_a_log.ipynb"


def outputs(notebook, kind):
    """Return the outputs with a MIME type from all cells."""
    return [
        one["data"][kind] for cell in notebook.cells for one in cell.get("outputs", ()) if kind in one.get("data", ())
    ]


def numbers(notebook):
    """Return the numbers of the tables, without pandas' layout."""
    return [re.findall(r"[\d.:-]+", text) for text in outputs(notebook, "text/html")]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
@pytest.mark.usefixtures("small_java")
def test_the_notebook_runs_with_the_stored_outputs():
    stored_notebook = nbformat.read(NOTEBOOK, as_version=4)
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    for cell in notebook.cells:
        cell.pop("outputs", None)
        if cell.cell_type == "code":
            cell["outputs"] = []
    client = nbclient.NotebookClient(
        notebook,
        timeout=240,
        startup_timeout=240,
        kernel_name="python3",
        resources={"metadata": {"path": str(EXAMPLES)}},
    )
    client.execute()
    assert numbers(notebook) == numbers(stored_notebook)
    assert len(outputs(notebook, "image/png")) == len(outputs(stored_notebook, "image/png")) == 1
    assert len(numbers(stored_notebook)) == 3
    assert "6000" in numbers(stored_notebook)[0]


def test_the_notebook_contains_no_machine_specific_paths():
    raw = NOTEBOOK.read_text(encoding="utf-8")
    assert len(raw) < 200_000
    assert not re.search(r"/home/|/root/|/work/|/tmp/", raw)
