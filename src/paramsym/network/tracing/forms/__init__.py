"""One spelling per meaning: the many operations of torch become few, with complete arguments.

An operation without a form is emitted under its own name.
"""

from paramsym.network.tracing.forms import (  # importing a module registers its forms
    arithmetic,
    constant,
    contract,
    layout,
    norm,
    plain,
    pool,
    reduce,
)
from paramsym.network.tracing.forms.registry import COMPOSITES, FORMS, Event

__all__ = [
    "COMPOSITES",
    "FORMS",
    "Event",
    "arithmetic",
    "constant",
    "contract",
    "layout",
    "norm",
    "plain",
    "pool",
    "reduce",
]
