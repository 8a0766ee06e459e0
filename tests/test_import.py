"""The front door is light: public names come on first use, and torch only with them."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import paramsym as ps

DOOR = Path(ps.__file__)


def python(code: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_the_package_imports_no_torch() -> None:
    assert python("import sys, paramsym; print('torch' in sys.modules)") == "False"


def test_listing_the_names_imports_no_torch() -> None:
    code = "import sys, paramsym; dir(paramsym); print('torch' in sys.modules)"
    assert python(code) == "False"


def test_help_imports_no_torch() -> None:
    code = (
        "import sys\nfrom paramsym.cli import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "print('torch' in sys.modules, 'rich' in sys.modules)"
    )
    assert python(code).splitlines()[-1] == "False False"


def test_a_public_name_does_import_torch() -> None:
    """The control of the tests above: torch would show."""
    code = "import sys, paramsym; paramsym.Rank; print('torch' in sys.modules)"
    assert python(code) == "True"


@pytest.mark.parametrize("name", ps.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(ps, name) is not None
    assert name in dir(ps)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = ps.no_such_name


def test_type_checkers_see_the_same_names_from_the_same_homes() -> None:
    block = next(node for node in ast.parse(DOOR.read_text()).body if isinstance(node, ast.If))
    seen = {
        alias.asname: statement.module
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
    lazy = ps._HOME | {name: "paramsym" for name in ps._MODULES}
    assert seen == lazy
