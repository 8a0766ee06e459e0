"""Every example runs, and every code block of the pages prints what the page says it prints."""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import runpy
import sys
from pathlib import Path
from types import ModuleType

import pytest

from paramsym.cli import main

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
# A python block, and the text block of its output when one follows at once.
FENCED = re.MULTILINE | re.DOTALL
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n?^```text\n(.*?)^```\n)?", FENCED)
LANGUAGES = ("python", "text")
# Errors of rounding: which digits they have depends on the processor.
ROUNDING = re.compile(r"\d\.\de-\d\d")
EMPTY = re.compile(r"^```text\n\s*^```", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")
SAME = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def run_blocks(page: str) -> list[tuple[str, str]]:
    """Expected and actual output of each block; the blocks of a page share their names."""
    # A module like any other: what classes of a page need (dataclasses do) they look up in there.
    module = ModuleType("__page__")
    results = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, module.__name__, module)
        for code, expected in BLOCK.findall(page):
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(code, "<page>", "exec"), vars(module))
            results.append((expected, printed.getvalue()))
    return results


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out, "an example shows something"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_page_prints_what_it_says(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for expected, printed in run_blocks(path.read_text(encoding="utf-8")):
        if expected:
            assert doctest.OutputChecker().check_output(expected, printed, SAME), (
                f"the page says\n{expected}\nthe code prints\n{printed}"
            )


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_no_output_is_left_blank(path: Path) -> None:
    """A blank block would agree with whatever the code prints."""
    assert not EMPTY.search(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_links_lead_somewhere(path: Path) -> None:
    targets = LINK.findall(path.read_text(encoding="utf-8"))
    missing = [target for target in targets if not (path.parent / target).exists()]
    assert not missing


def test_command_line_page_shows_what_analyze_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    nets, table = (re.search(rf"^```{kind}\n(.*?)^```", page, FENCED) for kind in LANGUAGES)
    command = re.search(r"^    paramsym (analyze my_nets:.*)$", page, re.MULTILINE)
    assert nets and table and command
    (tmp_path / "my_nets.py").write_text(nets[1])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("sys.path", [*sys.path])
    assert main(command[1].split()) == 0
    assert doctest.OutputChecker().check_output(
        ROUNDING.sub("0", table[1]), ROUNDING.sub("0", capsys.readouterr().out), SAME
    )


def test_a_wrong_page_is_found() -> None:
    """The control: the comparison above can fail."""
    (expected, printed), *_ = run_blocks("```python\nprint(1)\n```\n\n```text\n2\n```\n")
    assert not doctest.OutputChecker().check_output(expected, printed, SAME)


def test_a_right_page_passes() -> None:
    page = (
        "```python\nx = 1\n```\nthen\n```python\nprint(x, 'and more')\n```\n```text\n1 ...\n```\n"
    )
    results = run_blocks(page)
    assert results[0] == ("", "")
    assert doctest.OutputChecker().check_output(*results[1], SAME)
