"""Imports run downward only, papers use public names only, and groups know nothing of torch.nn."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "src"
FLOORS = (
    {"errors"},
    {"numerics", "data"},
    {"groups"},
    {"network"},
    {"action"},
    {"function_space", "dynamics", "expansion", "discovery", "train", "export"},
    {"applications"},
    {"papers", "report", "testing"},
    {"cli"},
    {"__main__"},
)
FLOOR = {room: level for level, rooms in enumerate(FLOORS) for room in rooms}
# Rooms above every other may come in through the front door, `import paramsym`.
DOOR = FLOOR["papers"]


def modules() -> dict[str, str]:
    """Dotted name -> source of every module of the package."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = path.read_text(encoding="utf-8")
    return found


def imports(module: str, source: str, *, is_package: bool = False) -> Iterator[str]:
    """Dotted names a module imports, wherever in it the statement stands."""
    package = module if is_package else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*(above if node.level else []), *filter(None, [node.module])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def public_names() -> set[str]:
    import paramsym

    return set(paramsym.__all__)


def violation(module: str, target: str) -> str | None:
    """Why `module` may not import `target`, or None."""
    parts, wanted = module.split("."), target.split(".")
    if wanted[0] == "torch" and wanted[1:2] == ["nn"] and parts[1:2] == ["groups"]:
        return f"{module}: groups are mathematics and import no torch.nn"
    if wanted[0] != "paramsym" or len(parts) == 1:
        return None
    room, other = parts[1], wanted[1] if len(wanted) > 1 else ""
    if room == other or other == "__version__":
        return None
    if room == "papers" and other in public_names() | {""} and len(wanted) <= 3:
        return None
    if room == "papers":
        return f"{module}: papers use public names only, not {target}"
    if other not in FLOOR:
        return None if FLOOR[room] >= DOOR else f"{module}: imports the whole package ({target})"
    if FLOOR[other] >= FLOOR[room]:
        return f"{module}: imports upward or sideways ({target})"
    return None


def violations(module: str, source: str, *, is_package: bool = False) -> list[str]:
    """Every import of a module that the house does not allow."""
    targets = imports(module, source, is_package=is_package)
    return [reason for target in targets if (reason := violation(module, target))]


def test_every_room_has_a_floor() -> None:
    rooms = {name.split(".")[1] for name in modules() if "." in name}
    assert rooms <= set(FLOOR), f"give these a floor: {sorted(rooms - set(FLOOR))}"


def test_imports_run_downward() -> None:
    packages = {path.parent for path in ROOT.rglob("__init__.py")}
    names = {".".join(path.relative_to(ROOT).parts) for path in packages}
    found = [
        reason
        for module, source in modules().items()
        for reason in violations(module, source, is_package=module in names)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("module", "source", "complaint"),
    [
        ("paramsym.groups.base", "from paramsym.network import trace", "upward"),
        ("paramsym.groups.base", "def f():\n    import paramsym.action.verify", "upward"),
        ("paramsym.groups.base", "from ..network.graph import Graph", "upward"),
        ("paramsym.dynamics.flow", "from paramsym.expansion import counting", "sideways"),
        ("paramsym.network.solve", "import paramsym", "whole package"),
        ("paramsym.groups.base", "from torch import nn", "torch.nn"),
        ("paramsym.groups.base", "import torch.nn.functional as F", "torch.nn"),
        ("paramsym.papers.flat_minima.claims", "import paramsym.network.solve", "public"),
        ("paramsym.papers.runner", "from paramsym.action.verify import verify", "public"),
    ],
)
def test_a_forbidden_import_is_found(module: str, source: str, complaint: str) -> None:
    assert any(complaint in reason for reason in violations(module, source))


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("paramsym.network.solve", "from paramsym.groups import Permutation\nimport torch.nn"),
        ("paramsym.groups.lattice", "from .base import Group"),
        ("paramsym.papers.flat_minima.claims", "import paramsym as ps"),
        ("paramsym.papers.runner", "from paramsym import ParamsymError"),
        ("paramsym.cli", "import paramsym as ps\nfrom paramsym.report.tables import spaces"),
    ],
)
def test_an_allowed_import_passes(module: str, source: str) -> None:
    assert violations(module, source) == []
