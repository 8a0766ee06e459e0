"""When is a stored result still a result? While the code it came from is the same."""

from __future__ import annotations

import hashlib
import marshal
import sys
from pathlib import Path
from types import FunctionType

import torch

import paramsym
from paramsym.papers.claim import Claim
from paramsym.papers.registry import all_claims

# What only shows results cannot change them.
_FRONT = ("cli.py", "__main__.py", "report")


def fingerprint(claim: Claim, scale: str, seed: int, library: bytes) -> str:
    """A hash of the claim's module, the library's code, torch's version, scale and seed."""
    digest = hashlib.sha256(library)
    for part in (claim.id, scale, str(seed), torch.__version__):
        digest.update(part.encode() + b"\0")
    digest.update(_own_code(claim))
    return digest.hexdigest()


def _own_code(claim: Claim) -> bytes:
    module = sys.modules.get(claim.measure.__module__)
    source = getattr(module, "__file__", None)
    if source is not None and Path(source).exists():
        return Path(source).read_bytes()
    # Defined at a prompt: no file to read, but the compiled function says what it does.
    function = claim.measure
    return marshal.dumps(function.__code__) if isinstance(function, FunctionType) else b""


def library_code() -> bytes:
    """A hash of every file a claim may rest on: all but other claims, and what only displays."""
    package = Path(paramsym.__file__).parent
    modules = (sys.modules.get(claim.measure.__module__) for claim in all_claims())
    claims = {Path(str(module.__file__)) for module in modules if module is not None}
    digest = hashlib.sha256()
    for file in sorted(package.rglob("*.py")):
        name = file.relative_to(package)
        if name.parts[0] not in _FRONT and file not in claims:
            digest.update(name.as_posix().encode() + b"\0" + file.read_bytes())
    return digest.digest()
