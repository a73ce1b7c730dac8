"""The notebooks run, and come to their numbers; each of their pictures can be drawn."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat
import pytest
import vl_convert
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"

# The bounds of what each notebook comes to, and the number of its pictures.
EXPECTED = {
    "home-uplink": ({"times_lower": (10, 22), "shaping_alone": (0.9, 1.15), "goodput": (0.93, 1)}, 3),
    "queues-over-rates": (
        {"fq_codel_at_10": (8, 16), "cake_at_5": (10, 22), "codel_at_10": (5, 12), "least_used": (97, 100)},
        2,
    ),
    "check-and-explain": (
        {"findings": (3, 3), "left": (0, 0), "times_lower": (15, 35), "of_the_target": (0.3, 1.5)},
        2,
    ),
}

# What a notebook has made, said at its end.
SAYS = """
import altair, json
charts = [value.to_dict() for value in Out.values() if isinstance(value, altair.TopLevelMixin)]
print("made", json.dumps({"headline": headline, "charts": charts}))
"""


def test_each_notebook_is_here() -> None:
    assert {path.stem for path in NOTEBOOKS.glob("*.ipynb")} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_notebook_comes_to_its_numbers(name: str, tmp_path: Path) -> None:
    notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    lines = sum(len(cell.source.splitlines()) for cell in notebook.cells if cell.cell_type == "code")
    assert lines < 100 and all(not cell.get("outputs") for cell in notebook.cells), "kept without its outputs"
    notebook.cells.append(nbformat.v4.new_code_cell(SAYS))
    NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    ).execute()
    said = "".join(output.text for output in notebook.cells[-1].outputs if output.get("name") == "stdout")
    made = json.loads(said.partition("made ")[2])
    bounds, pictures = EXPECTED[name]
    for key, (low, high) in bounds.items():
        assert low <= made["headline"][key] <= high, (key, made["headline"])
    assert len(made["charts"]) == pictures
    for chart in made["charts"]:
        assert vl_convert.vegalite_to_svg(chart).count("<path") > 5
    # A bar that a run has shown is gone at the end.
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            assert "<progress" not in json.dumps(output.get("data", {}))
