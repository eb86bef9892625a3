"""The pictures of the documents, which a script makes."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path
from types import ModuleType

import pytest
from support.scripts import script

ROOT = Path(__file__).parents[2]
SVG = "{http://www.w3.org/2000/svg}"
PAGES = ("#ffffff", "#1e2129")


@pytest.fixture(scope="module")
def pictures() -> ModuleType:
    """Return the script."""
    return script("pictures")


def test_the_pictures_are_what_the_script_makes(pictures: ModuleType) -> None:
    assert pictures.different() == [], "run python .ci/pictures.py"


def test_a_check_names_the_files_that_differ(
    pictures: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "docs" / "pictures"
    folder.parent.mkdir()
    monkeypatch.setattr(pictures, "FOLDER", folder)
    assert pictures.main([]) == 0
    assert pictures.main(["--check"]) == 0
    assert capsys.readouterr().out == ""
    changed, lost, *_ = sorted(folder.iterdir())
    changed.write_text("<svg/>")
    lost.unlink()
    (folder / "old.svg").write_text("<svg/>")
    assert pictures.main(["--check"]) == 1
    lines = capsys.readouterr().out.splitlines()
    named = [f"docs/pictures/{name}" for name in sorted([changed.name, lost.name, "old.svg"])]
    assert [line.partition(":")[0] for line in lines] == named


def test_pictures_have_a_title_and_refer_to_nothing(pictures: ModuleType) -> None:
    for path, text in pictures.files().items():
        svg = ElementTree.fromstring(text)
        assert svg.get("viewBox"), path
        assert svg.findtext(f"{SVG}title"), path
        assert svg.findtext(f"{SVG}desc"), path
        tags = {one.tag.removeprefix(SVG) for one in svg.iter()}
        assert tags <= {"svg", "title", "desc", "style", "rect", "path", "text"}
        assert "url(" not in text


def test_texts_and_lines_show_on_light_and_on_dark_pages(pictures: ModuleType) -> None:
    for colors in (pictures.LIGHT, pictures.DARK):
        fills = [fill for kind, fill in colors.items() if kind != "text"]
        assert min(_contrast(colors["text"], fill) for fill in fills) >= 7
    assert min(_contrast(line, page) for line in pictures.LINES.values() for page in PAGES) >= 3


def _contrast(one: str, other: str) -> float:
    """Return the contrast of two colors, as WCAG defines it."""
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(color: str) -> float:
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
