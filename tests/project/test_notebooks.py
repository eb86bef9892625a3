"""The notebooks among the examples, each run in a kernel of its own, and the plots of the bench."""

from __future__ import annotations

import json
import os
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from types import ModuleType
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from support.scripts import script

import lookupstore

pytestmark = pytest.mark.drawn(0.4)

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
SAID = {
    "joins": "'336,776 flights, 52,606 without a plane: equal to merge'",
    "hudi_table": "'197 large planes, from 1 of 3 files'",
}
#: Of the stores that are built: rows that were read, and written.
BARS = {"joins": [["3,322 rows", "3,322 rows"]], "hudi_table": []}


# ---- notebooks ----------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("name", SAID)
def test_a_notebook_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # What kernels keep of themselves is not of the user who runs the tests.
    for variable in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(variable, str(tmp_path / variable))
    folder = tmp_path / "here"
    folder.mkdir()
    notebook = nbformat.read(ROOT / "examples" / f"{name}.ipynb", as_version=4)
    client = NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    client.execute(
        env={**os.environ, "PYTHONPATH": str(Path(lookupstore.__file__).parents[1])},
    )
    shown = [
        output["data"]
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if output["output_type"] == "execute_result"
    ]
    assert shown[-1]["text/plain"] == SAID[name]
    # What lookupstore shows in HTML: a table, with its own words.
    captions = [one["text/html"] for one in shown if "<caption>" in one.get("text/html", "")]
    assert len(captions) == {"joins": 2, "hudi_table": 2}[name]
    assert any(folder.iterdir())
    # Bars of builds, as they were at the end. A write shows a bar only if it takes a second.
    bars = [
        output["data"]["text/plain"]
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if output["output_type"] == "display_data"
    ]
    rows = [re.findall(r"[\d,]+ rows", one) for one in bars]
    assert [one for one in rows if one] == BARS[name]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_short_and_saved_without_outputs(path: Path) -> None:
    notebook = nbformat.read(path, as_version=nbformat.NO_CONVERT)
    nbformat.validate(notebook)
    assert notebook.nbformat == 4
    assert path.stem in SAID
    assert len(notebook.cells) <= 12
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.id for cell in code if cell.outputs or cell.execution_count is not None] == []
    assert f"examples/{path.name}" in (ROOT / "examples" / "README.md").read_text()


# ---- plots of the bench -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def plots() -> ModuleType:
    """Return the hook of mkdocs that draws."""
    return script("plots")


def lines_of(subjects: list[Any], *, day: int = 1, **machine: Any) -> str:
    """Return JSON lines of one run of the bench that measured some subjects."""
    run = {
        "started": f"2026-01-{day:02}T00:00:00+00:00",
        "machine": {
            "cpu": "a processor",
            "cores": 2,
            "load": 0.1,
            "python": "CPython 3.14",
            "packages": {"lookupstore": "0.1.0", "rocksdict": "7.8.9", "plyvel": "-"},
            **machine,
        },
        "settings": {"records": 12_345, "rounds": 3},
    }
    measured = [
        {**one._asdict(), "unit": "/s", "value": 1.5e6 * (i + day), "run": run}
        for i, one in enumerate(subjects)
    ]
    bar = {"bar": "a bar", "workload": "W1", "verb": "get", "contender": "dict", "run": run}
    return "".join(json.dumps(one) + "\n" for one in [*measured, bar])


@pytest.mark.parametrize("name", ["rates", "sizes", "upserts"])
def test_a_plot_is_drawn_where_a_page_has_its_marker(
    plots: ModuleType, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib", reason="pip install 'lookupstore[docs]'")
    results = tmp_path / "results.jsonl"
    results.write_text(lines_of(plots.PLOTS[name].subjects))
    monkeypatch.setattr(plots, "RESULTS", results)
    page = plots.on_page_content(f"<p>1</p><!-- plot: {name} --><p>2</p>", None, None, None)
    assert page.startswith("<p>1</p><figure")
    assert page.endswith("</figure><p>2</p>")
    svg = page.removeprefix("<p>1</p>").removesuffix("<p>2</p>")
    texts = [one for one in ElementTree.fromstring(svg).iter() if one.tag.endswith("}text")]
    said = " ".join("".join(one.itertext()) for one in texts)
    for label, _ in plots.PLOTS[name].rows:
        assert label.removesuffix(" keys").removesuffix(" key") in said, label
    # Texts have the color of the page, nothing has a background, and no style is the page's.
    assert [one for one in texts if "fill: currentColor" not in one.attrib["style"]] == []
    assert "<style" not in svg
    assert "#ffffff" not in svg


def test_the_plots_of_a_page_are_the_same_each_time_and_share_no_names(plots: ModuleType) -> None:
    pytest.importorskip("matplotlib", reason="pip install 'lookupstore[docs]'")
    results = plots.RESULTS.read_text()
    page = "".join(f"<!-- plot: {name} -->" for name in plots.PLOTS)
    drawn = plots.on_page_content(page, None, None, None)
    assert drawn == "".join(plots.svg(name, results) for name in plots.PLOTS)
    names = re.findall(r' id="([^"]+)"', drawn)
    assert len(names) == len(set(names)) > 0
    assert {*re.findall(r'(?:url\(|href=")#([^")]+)', drawn)} == {*names}


def test_a_plot_without_one_of_its_subjects_is_an_error(plots: ModuleType) -> None:
    subjects = plots.PLOTS["upserts"].subjects
    lacking = lines_of(subjects[1:]) + lines_of(subjects[:-1], day=2)
    with pytest.raises(LookupError, match="no run of the bench measured changes / batch / rocks"):
        plots.svg("upserts", lacking)
    with pytest.raises(LookupError, match="measured W1 / get / lookupstore, "):
        plots.markdown("rates", "")
    with pytest.raises(KeyError, match="nothing"):
        plots.on_page_content("<!-- plot: nothing -->", None, None, None)


def test_figures_are_of_the_last_run_that_has_all_of_them(plots: ModuleType) -> None:
    subjects = plots.PLOTS["upserts"].subjects
    results = lines_of(subjects) + lines_of(subjects, day=2) + lines_of(subjects[:2], day=3)
    table = plots.markdown("upserts", results)
    assert table.splitlines() == [
        "| | upserts | lookups afterwards |",
        "| --- | ---: | ---: |",
        "| lookupstore | 3 | 4.5 |",
        "| lookupstore, compacted | | 6 |",
        "| rocksdict | 7.5 | 9 |",
        "| rocksdict, sorted bytes | 10.5 | |",
        "",
        "*2026-01-02: a processor, 2 cores, load 0.1 before; CPython 3.14, lookupstore 0.1.0, "
        "rocksdict 7.8.9; 12,345 records, 3 rounds; medians.*",
    ]
    page = "# A\n\n<!-- plot: upserts -->\n\ntext\n"
    written = plots.written(page, results)
    assert written == f"# A\n\n<!-- plot: upserts -->\n\n{table}\ntext\n"
    assert plots.written(written, results) == written
    calls = plots.markdown("sizes", lines_of(plots.PLOTS["sizes"].subjects))
    # 4.5 million calls of 10 keys a second.
    assert f"| 10 keys | {1 / 45:.3g} |" in calls


def test_the_page_has_the_figures_of_the_results(plots: ModuleType) -> None:
    page, results = plots.PAGE.read_text(), plots.RESULTS.read_text()
    for name in plots.PLOTS:
        assert f"<!-- plot: {name} -->\n\n{plots.markdown(name, results)}" in page
    assert plots.kept(results) == results
