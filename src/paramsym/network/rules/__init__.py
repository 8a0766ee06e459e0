"""One short rule per operation: what it lets through, and what it ties together.

A rule receives an ``Op`` and returns the value of its result, built from the verbs of
``contract``, ``elementwise``, ``layout`` and ``reduce``. An operation without a rule pins all that
it reads. Rules can be added from outside:

>>> from paramsym.network.rules import rule
>>> from paramsym.network.rules.elementwise import pointwise
>>> @rule("mylib.swish.default")
... def swish(op):
...     return pointwise(op, op[0], activation_facts("silu"))
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

from paramsym.network.solve import Op, Result

Rule = Callable[[Op], Result]

_RULES: dict[str, Rule] = {}
_MODULES = (
    "elementwise",
    "linear",
    "layout",
    "reduce",
    "convolution",
    "norm",
    "attention",
    "rotary",
    "activation",
)


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule for the named operations, replacing what was there."""

    def register(function: Rule) -> Rule:
        for name in names:
            _RULES[name] = function
        return function

    return register


def find_rule(name: str) -> Rule | None:
    """The rule for an operation; functions of one number need none of their own."""
    if "aten.linear.default" not in _RULES:
        for module in _MODULES:
            importlib.import_module(f"paramsym.network.rules.{module}")
    return _RULES.get(name, _RULES["any function of one number"])
