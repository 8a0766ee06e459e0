"""What a pointwise function is: parity, homogeneity, reflections, kinks, by a probe.

The probe evaluates the function in float64 on fixed points from 1e-12 to 1e12, around zero, around
the usual kinks and around every number the function carries, and accepts a law only where it holds
at all of them, to 1e-12 of the function's size nearby. Smaller deviations are not seen (nor those
below 1e-14 of its size around |z| = 1, its own rounding errors): relu(z) + 1e-9 is not homogeneous,
relu(z) + 1e-25 is. Neither are features that no number in the code announces and that fit between
two points. `ps.verify` checks every derived symmetry on the model itself as well.
"""

from __future__ import annotations

import copy
import difflib
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import lru_cache
from types import CodeType
from typing import Any, Literal

import torch
from torch import Tensor, nn

from paramsym.errors import ParamsymError
from paramsym.network.probe import Monotone, Pointwise, Probe

Reflection = Literal["none", "odd", "even", "affine", "linear"]


@dataclass(frozen=True)
class ActivationFacts:
    """Laws that a pointwise function σ obeys on all of its domain.

    `reflection` is the strongest of: odd σ(−z) = −σ(z); even σ(−z) = σ(z); affine σ(−z) = c − σ(z);
    linear σ(z) − σ(−z) = c·z, with `reflection_constant` c; none. `degree` is α in
    σ(cz) = c^α σ(z) for all c > 0, and `rate` is k in σ(z + t) = e^{kt} σ(z).

    >>> facts = activation_facts(torch.relu)
    >>> facts.degree, facts.odd, facts.reflection, facts.zero_slope
    (Fraction(1, 1), False, 'linear', False)
    """

    name: str
    odd: bool
    even: bool
    degree: Fraction | None
    reflection: Reflection
    reflection_constant: float
    zero_value: bool  # σ(0) = 0
    zero_slope: bool  # σ'(0) exists and is 0
    exponential: bool
    rate: float
    polynomial: bool
    polynomial_degree: int | None
    constant: bool
    linear: bool  # σ(z) = a·z
    affine: bool  # σ(z) = a·z + b
    piecewise_linear: bool
    monotone: Monotone  # not strictly
    analytic: bool  # on the whole real line, as far as three derivatives show
    domain: Literal["real", "partial"]  # is σ(z) a number for every z?

    @property
    def homogeneous(self) -> bool:
        """Is there a degree α with σ(cz) = c^α σ(z) for all c > 0?"""
        return self.degree is not None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; the degree as text such as "1/2"."""
        return asdict(self) | {"degree": None if self.degree is None else str(self.degree)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ActivationFacts:
        """The inverse of `to_dict`."""
        degree = data["degree"]
        return cls(**{**data, "degree": None if degree is None else Fraction(degree)})

    def __str__(self) -> str:
        return "\n".join([self.name, *(f"  {label:<18}{value}" for label, value in self._rows())])

    def _rows(self) -> Iterator[tuple[str, str]]:
        yield "reflection", _REFLECTIONS[self.reflection].format(c=self.reflection_constant)
        yield "homogeneous", f"degree {self.degree}" if self.homogeneous else "no"
        yield "at zero", f"value {_zero(self.zero_value)}, slope {_zero(self.zero_slope)}"
        yield "shape", ", ".join(self._shape()) or "piecewise smooth"
        yield "domain", self.domain

    def _shape(self) -> Iterator[str]:
        if self.polynomial:
            yield f"polynomial of degree {self.polynomial_degree}"
        elif self.exponential:
            yield f"exponential of rate {self.rate:g}"
        elif self.piecewise_linear:
            yield "piecewise linear"
        if self.analytic:
            yield "analytic"
        if self.monotone != "none":
            yield self.monotone


_REFLECTIONS = {
    "none": "none",
    "odd": "odd: σ(−z) = −σ(z)",
    "even": "even: σ(−z) = σ(z)",
    "affine": "affine: σ(−z) = {c:g} − σ(z)",
    "linear": "linear: σ(z) − σ(−z) = {c:g}·z",
}


def _zero(holds: bool) -> str:
    return "0" if holds else "not 0"


def activation_facts(
    fn: str | nn.Module | Pointwise, *, hints: Iterable[float] = ()
) -> ActivationFacts:
    """Probe a pointwise function: a module, a callable on tensors, or a name such as "relu".

    Numbers that a module carries (thresholds, slopes, limits) are probed as possible kinks;
    `hints` adds more for other callables. What is not pointwise, not deterministic or not a
    float64 function is refused.

    >>> print(activation_facts("sigmoid"))
    sigmoid
      reflection        affine: σ(−z) = 1 − σ(z)
      homogeneous       no
      at zero           value not 0, slope not 0
      shape             analytic, increasing
      domain            real
    """
    name, function, numbers = _resolve(fn)
    return facts_of_probe(Probe(name, function, {*numbers, *hints}))


def facts_of_op(
    op: str, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None
) -> ActivationFacts | None:
    """Facts of an operation of a graph with the scalars it was called with, or None.

    None where the operation is not known to be pointwise, takes several tensors, or is random.

    >>> facts_of_op("aten.leaky_relu.default", (torch.empty(0), 0.1)).degree
    Fraction(1, 1)
    >>> facts_of_op("aten.softmax.int", (torch.empty(0), 1)) is None
    True
    """
    bound = _bind(args, kwargs or {})
    operation = _operation(op)
    if bound is None or operation is None:
        return None
    base = functional_name(op)[1]
    pointwise = torch.Tag.pointwise in operation.tags or base in UNMARKED
    return _facts_of_bound(operation, base, *bound) if pointwise else None


# Pointwise operations that torch does not mark as such: other names of marked ones, mostly.
# fmt: off
UNMARKED = frozenset({
    "absolute", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "clip", "divide",
    "fix", "hardswish", "log_sigmoid", "multiply", "negative", "special_erf", "special_erfc",
    "special_erfinv", "special_exp2", "special_expit", "special_expm1", "special_i0",
    "special_log1p", "special_logit", "special_ndtr", "special_round", "special_sinc", "subtract",
    "true_divide",
})
# fmt: on


def functional_name(op: str) -> tuple[str, str, str]:
    """Namespace, name and overload, without the underscore that marks an in-place form.

    >>> functional_name("aten.relu_.default")
    ('aten', 'relu', 'default')
    """
    namespace, _, rest = op.partition(".")
    base, _, overload = rest.partition(".")
    return namespace, base.rstrip("_"), overload or "default"


Bound = tuple[tuple[Any, ...], tuple[tuple[str, Any], ...], int | str]


def _bind(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Bound | None:
    """Scalar arguments, and the place of the one tensor among them."""
    places: list[int | str] = [i for i, value in enumerate(args) if not _is_scalar(value)]
    places += [key for key, value in kwargs.items() if not _is_scalar(value)]
    if len(places) != 1:
        return None
    place = places[0]
    positional = tuple(None if i == place else value for i, value in enumerate(args))
    named = tuple(sorted((k, v) for k, v in kwargs.items() if k != place))
    return positional, named, place


def _is_scalar(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float, str, torch.dtype))


def _operation(op: str) -> torch._ops.OpOverload | None:
    namespace, base, overload = functional_name(op)
    packet = getattr(torch.ops.aten, base, None) if namespace == "aten" else None
    return getattr(packet, overload, None)


@lru_cache(maxsize=1024)
def _facts_of_bound(
    operation: torch._ops.OpOverload,
    base: str,
    args: tuple[Any, ...],
    kwargs: tuple[tuple[str, Any], ...],
    place: int | str,
) -> ActivationFacts | None:
    def function(z: Tensor) -> Tensor:
        positional = [z if i == place else value for i, value in enumerate(args)]
        named = dict(kwargs) | ({place: z} if isinstance(place, str) else {})
        result: Tensor = operation(*positional, **named)
        return result

    scalars = [*args, *(value for _, value in kwargs)]
    shown = [*("z" if i == place else f"{v}" for i, v in enumerate(args))]
    shown += [f"{key}={value}" for key, value in kwargs]
    try:
        probe = Probe(f"{base}({', '.join(shown)})", function, _numbers(scalars))
    except ParamsymError:
        return None  # random, or not defined on float64: nothing is known about it
    return facts_of_probe(probe)


def facts_of_probe(probe: Probe) -> ActivationFacts:
    """Every law the probe decides, gathered."""
    odd, even = probe.odd(), probe.even()
    reflection, constant = _reflection(probe, odd, even)
    coefficients, rate = probe.polynomial(), probe.rate()
    degree = None if coefficients is None else len(coefficients) - 1
    through_zero = probe.zero_value()
    defined = probe.defined()
    return ActivationFacts(
        name=probe.name,
        odd=odd,
        even=even,
        degree=probe.degree(),
        reflection=reflection,
        reflection_constant=constant,
        zero_value=through_zero,
        zero_slope=probe.zero_slope(),
        exponential=rate is not None,
        rate=rate or 0.0,
        polynomial=degree is not None,
        polynomial_degree=degree,
        constant=degree == 0,
        linear=degree is not None and degree <= 1 and through_zero,
        affine=degree is not None and degree <= 1,
        piecewise_linear=defined and probe.piecewise_linear(),
        monotone=probe.monotone(),
        analytic=defined and (degree is not None or probe.smooth()),
        domain="real" if defined else "partial",
    )


def _reflection(probe: Probe, odd: bool, even: bool) -> tuple[Reflection, float]:
    if odd or even:
        return ("odd" if odd else "even"), 0.0
    if (c := probe.affine_reflection()) is not None:
        return "affine", c
    if (c := probe.linear_reflection()) is not None:
        return "linear", c
    return "none", 0.0


def _quick_gelu(z: Tensor) -> Tensor:
    return z * torch.sigmoid(1.702 * z)


# Names that torch has no function for.
_NAMED: dict[str, Pointwise] = {
    "cube": lambda z: z**3,
    "gaussian": lambda z: torch.exp(-(z**2)),
    "gelu_tanh": functools.partial(nn.functional.gelu, approximate="tanh"),
    "identity": lambda z: z,
    "linear": lambda z: z,
    "quick_gelu": _quick_gelu,
    "relu2": lambda z: torch.relu(z) ** 2,
    "swish": nn.functional.silu,
}


def _resolve(fn: str | nn.Module | Pointwise) -> tuple[str, Pointwise, set[float]]:
    """A name, a float64 function that leaves `fn` alone, and the numbers `fn` carries."""
    if isinstance(fn, str):
        return fn, _named(fn), set()
    if isinstance(fn, nn.Module):
        module = copy.deepcopy(fn).double()
        carried = [*vars(fn).values(), *(p.item() for p in module.parameters() if p.numel() == 1)]
        return repr(fn), module, _numbers(carried) | _numbers_in_code(type(fn).forward)
    if not callable(fn):
        raise ParamsymError(
            f"{fn!r} is not a function",
            where="activation_facts",
            remedy='pass a module, a callable on tensors, or a name such as "relu"',
        )
    return getattr(fn, "__name__", repr(fn)), fn, _numbers_in_code(fn)


def _named(name: str) -> Pointwise:
    if name in _NAMED:
        return _NAMED[name]
    for home in (torch, nn.functional, torch.special):
        function: Pointwise | None = getattr(home, name, None)
        if callable(function) and not isinstance(function, type):
            return function
    near = difflib.get_close_matches(name, [*_NAMED, *dir(nn.functional), *dir(torch)])
    raise ParamsymError(
        f"no activation is called {name!r}",
        where="activation_facts",
        remedy=f"did you mean {', '.join(near)}?" if near else "pass the function itself",
    )


def _numbers(values: Iterable[Any]) -> set[float]:
    return {float(v) for v in values if isinstance(v, (int, float)) and not isinstance(v, bool)}


def _numbers_in_code(fn: Any) -> set[float]:
    """Constants, defaults and bound arguments of a Python function: where kinks may lie."""
    if isinstance(fn, functools.partial):
        return _numbers([*fn.args, *fn.keywords.values()]) | _numbers_in_code(fn.func)
    code = getattr(fn, "__code__", None)
    constants = code.co_consts if isinstance(code, CodeType) else ()
    enclosed = [_content(cell) for cell in getattr(fn, "__closure__", None) or ()]
    return _numbers([*constants, *(getattr(fn, "__defaults__", None) or ()), *enclosed])


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None
