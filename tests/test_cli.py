"""The command line answers what it is asked, and its exit status can be relied on."""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import paramsym as ps
from paramsym.cli import main

NETS = """
    import torch
    from torch import nn

    def tanh():
        return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))

    ready = tanh()
    number = 3

    def needs(width):
        return nn.Linear(width, width)

    def gives_number():
        return 3

    def tokens():
        return nn.Sequential(nn.Embedding(7, 4), nn.Linear(4, 6), nn.GELU(), nn.Linear(6, 2))

    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3, 4), nn.Linear(2, 4)
        def forward(self, x, y):
            return torch.tanh(self.a(x) + self.b(y)).sum(1, keepdim=True)

    class Strange(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3, 4), nn.Linear(4, 2)
        def forward(self, x):
            return self.b(torch.cummax(self.a(x), 1).values)

    class Broken(nn.Module):
        def __init__(self):
            super().__init__()
            raise RuntimeError("a bug of the user's own")
"""


@pytest.fixture(autouse=True)
def nets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module in the current folder, with a name no other test has imported."""
    name = f"nets_{abs(hash(tmp_path))}"
    (tmp_path / f"{name}.py").write_text(textwrap.dedent(NETS))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", ["", *__import__("sys").path])
    return name


def test_analyze_prints_each_space_and_holds(nets: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", f"{nets}:tanh", "--input", "4,3"]) == 0
    printed = capsys.readouterr().out
    assert "S₅" in printed or "S5" in printed
    assert "verification" in printed and "passed" in printed
    assert re.search(r"completeness +1\.000", printed)
    # 2^5 sign changes times 5! permutations
    assert "3840" in printed


def test_json_is_the_whole_answer(nets: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", f"{nets}:ready", "--input", "4x3", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["holds"] is True
    assert answer["dim"] == 0
    assert answer["pinned"] == []
    assert round(10 ** answer["log10_order"]) == 3840
    assert ps.Symmetry.from_dict(answer["symmetry"]).dim == 0


def test_out_writes_the_symmetry(nets: str, tmp_path: Path) -> None:
    out = tmp_path / "new" / "folder"
    assert main(["analyze", f"{nets}:tanh", "--input", "4,3", "--out", str(out)]) == 0
    assert json.loads((out / "analysis.json").read_text())["holds"] is True
    assert ps.Symmetry.from_dict(json.loads((out / "symmetry.json").read_text())).dim == 0


def test_token_models_take_integers(nets: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["analyze", f"{nets}:tokens", "--input", "2,3", "--int-input", "7", "--json"]
    assert main(arguments) == 0
    answer = json.loads(capsys.readouterr().out)
    # The embedding feeds a linear layer: GL(4), and its bias takes back a shift of every token.
    assert answer["dim"] == 16 + 4
    assert answer["explanation"]["explained"] == 16 + 4, "the measured kernel holds all of them"


def test_several_inputs(nets: str) -> None:
    assert main(["analyze", f"{nets}:Two", "--input", "4,3", "--input", "4,2"]) == 0


def test_an_unknown_operation_is_named(nets: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", f"{nets}:Strange", "--input", "4,3"]) == 0
    assert "cummax" in capsys.readouterr().out


def test_weights_are_loaded(nets: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = {"0.weight": torch.zeros(5, 3), "0.bias": torch.zeros(5)}
    state |= {"2.weight": torch.full((2, 5), torch.nan), "2.bias": torch.zeros(2)}
    save_file(state, tmp_path / "w.safetensors")
    arguments = ["analyze", f"{nets}:tanh", "--input", "4,3", "--weights", "w.safetensors"]
    assert main(arguments) == 2, "weights that are not numbers were not noticed"
    assert "2.weight" in capsys.readouterr().err


@pytest.mark.parametrize("width", [40, 60, 100, 200])
def test_the_table_fits_the_terminal(
    nets: str, width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    main(["analyze", f"{nets}:tanh", "--input", "4,3"])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    assert any("S₅" in line for line in lines)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["NETS:absent", "--input", "4,3"], "absent"),
        (["no_such_module_at_all:f", "--input", "4,3"], "no_such_module_at_all"),
        (["NETS", "--input", "4,3"], "PKG.MODULE:FACTORY"),
        (["NETS:number", "--input", "4,3"], "not a torch.nn.Module"),
        (["NETS:gives_number", "--input", "4,3"], "not a torch.nn.Module"),
        (["NETS:needs", "--input", "4,3"], "without arguments"),
        (["NETS:tanh", "--input", "4,9"], ""),
        (["NETS:tanh", "--input", "4,3", "--input", "4,3"], ""),
        (["NETS:tanh", "--input", "4,3", "--weights", "absent.safetensors"], "absent.safetensors"),
        (["NETS:tanh", "--input", "4,3", "--weights", "NETS.py"], "NETS.py"),
    ],
)
def test_bad_usage_is_one_line_and_status_2(
    nets: str, arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [argument.replace("NETS", nets) for argument in arguments]
    assert main(["analyze", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("paramsym: ") and error.count("\n") == 1
    assert complaint.replace("NETS", nets) in error


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["no-such-command"],
        ["analyze"],
        ["analyze", "a:b"],
        ["analyze", "a:b", "--input", "4,three"],
        ["analyze", "a:b", "--input", "4,0"],
        ["analyze", "a:b", "--input", "4", "--trials", "0"],
    ],
)
def test_bad_grammar_is_status_2(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2


def test_an_error_in_the_users_factory_keeps_its_traceback(nets: str) -> None:
    with pytest.raises(RuntimeError, match="a bug of the user's own"):
        main(["analyze", f"{nets}:Broken", "--input", "4,3"])


def test_demo_shows_the_symmetry_at_work(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["demo", "--seed", "1"]) == 0
    first = capsys.readouterr().out
    (trained, along, control) = (
        re.search(rf"^ {name} .* (\d+) +([\d.e+-]+) *$", first, re.MULTILINE)
        for name in ("as trained", "moved along a symmetry", "moved as far at random")
    )
    assert trained and along and control, f"a line is broken:\n{first}"
    assert along[1] == "0" and float(along[2]) < 1e-9
    assert int(control[1]) > 100 and float(control[2]) > 1
    assert main(["demo", "--seed", "1"]) == 0
    assert capsys.readouterr().out == first


def test_reproduce_writes_the_ledger(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "ledger"
    arguments = ["reproduce", "flat_minima/example-3-4", "--jobs", "1", "--out", str(out)]
    assert main(arguments) == 0
    assert "flat_minima/example-3-4" in capsys.readouterr().out
    ledger = json.loads((out / "ledger.json").read_text())
    assert [claim["id"] for claim in ledger["claims"]] == ["flat_minima/example-3-4"]


def test_reproduce_knows_its_papers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "no_such_paper"]) == 2
    assert "no_such_paper" in capsys.readouterr().err
