"""Which changes of a model's weights change nothing: derived, proved, explained and put to use.

Names are imported on first use, so that `import paramsym` does not import torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paramsym import errors as errors
    from paramsym import export as export
    from paramsym import groups as groups
    from paramsym import numerics as numerics
    from paramsym import papers as papers
    from paramsym import testing as testing
    from paramsym.action.orbit import orbit_dimension as orbit_dimension
    from paramsym.action.verify import Verification as Verification
    from paramsym.action.verify import verify as verify
    from paramsym.errors import ParamsymError as ParamsymError
    from paramsym.function_space.explain import Explanation as Explanation
    from paramsym.function_space.explain import explain as explain
    from paramsym.function_space.flat import FlatDirections as FlatDirections
    from paramsym.function_space.flat import flat_directions as flat_directions
    from paramsym.function_space.jacobian import jacobian as jacobian
    from paramsym.network.activations import ActivationFacts as ActivationFacts
    from paramsym.network.activations import activation_facts as activation_facts
    from paramsym.network.derive import symmetries as symmetries
    from paramsym.network.symmetry import Symmetry as Symmetry
    from paramsym.numerics import Rank as Rank

__version__ = "0.1.0"

# public name -> the module that defines it
_HOME = {
    "ActivationFacts": "paramsym.network.activations",
    "Explanation": "paramsym.function_space.explain",
    "FlatDirections": "paramsym.function_space.flat",
    "ParamsymError": "paramsym.errors",
    "Rank": "paramsym.numerics",
    "Symmetry": "paramsym.network.symmetry",
    "Verification": "paramsym.action.verify",
    "activation_facts": "paramsym.network.activations",
    "explain": "paramsym.function_space.explain",
    "flat_directions": "paramsym.function_space.flat",
    "jacobian": "paramsym.function_space.jacobian",
    "orbit_dimension": "paramsym.action.orbit",
    "symmetries": "paramsym.network.derive",
    "verify": "paramsym.action.verify",
}
# public submodules
_MODULES = frozenset({"errors", "export", "groups", "numerics", "papers", "testing"})

__all__ = ["__version__", *sorted(_HOME), *sorted(_MODULES)]


def __getattr__(name: str) -> Any:
    """Import a public name from its module the first time it is asked for."""
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
