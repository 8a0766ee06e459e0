"""The probe of a pointwise function finds the laws it obeys, and none that it nearly obeys."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from paramsym.errors import ParamsymError
from paramsym.network.activations import ActivationFacts, activation_facts, facts_of_op


@dataclass(frozen=True)
class Row:
    """What is known of an activation by hand; the defaults are those of a generic function."""

    fn: Any
    reflection: str = "none"
    constant: float = 0.0
    degree: Fraction | int | None = None
    zero: str = ""  # "v": σ(0) = 0, "s": σ'(0) = 0
    straight: bool = False
    analytic: bool = False
    monotone: str = "none"
    polynomial: int | None = None
    rate: float | None = None
    domain: str = "real"


UP, DOWN = "increasing", "decreasing"
R = Row
TORCH_MODULES = {
    "ReLU": R(nn.ReLU(), "linear", 1, 1, "v", True, monotone=UP),
    "ReLU-inplace": R(nn.ReLU(inplace=True), "linear", 1, 1, "v", True, monotone=UP),
    "ReLU6": R(nn.ReLU6(), zero="v", straight=True, monotone=UP),
    "LeakyReLU": R(nn.LeakyReLU(), "linear", 1.01, 1, "v", True, monotone=UP),
    "LeakyReLU-0.3": R(nn.LeakyReLU(0.3), "linear", 1.3, 1, "v", True, monotone=UP),
    "PReLU": R(nn.PReLU(), "linear", 1.25, 1, "v", True, monotone=UP),
    "RReLU-eval": R(nn.RReLU(0.1, 0.3).eval(), "linear", 1.2, 1, "v", True, monotone=UP),
    "ELU": R(nn.ELU(), zero="v", monotone=UP),
    "ELU-0.5": R(nn.ELU(0.5), zero="v", monotone=UP),
    "CELU": R(nn.CELU(), zero="v", monotone=UP),
    "CELU-2": R(nn.CELU(2.0), zero="v", monotone=UP),
    "SELU": R(nn.SELU(), zero="v", monotone=UP),
    "GELU": R(nn.GELU(), "linear", 1, zero="v", analytic=True),
    "GELU-tanh": R(nn.GELU(approximate="tanh"), "linear", 1, zero="v", analytic=True),
    "SiLU": R(nn.SiLU(), "linear", 1, zero="v", analytic=True),
    "Mish": R(nn.Mish(), zero="v", analytic=True),
    "Softplus": R(nn.Softplus(), "linear", 1, analytic=True, monotone=UP),
    "Softplus-10": R(nn.Softplus(beta=10.0), "linear", 1, analytic=True, monotone=UP),
    "Softplus-0.1": R(nn.Softplus(beta=0.1), "linear", 1, analytic=True, monotone=UP),
    "Softplus-40": R(nn.Softplus(threshold=40.0), "linear", 1, analytic=True, monotone=UP),
    # Cut off so early that the jump of log(1 + e^-2) shows.
    "Softplus-cut": R(nn.Softplus(threshold=2.0)),
    "Softsign": R(nn.Softsign(), "odd", zero="v", monotone=UP),
    "Tanh": R(nn.Tanh(), "odd", zero="v", analytic=True, monotone=UP),
    "Tanhshrink": R(nn.Tanhshrink(), "odd", zero="vs", analytic=True, monotone=UP),
    "Hardtanh": R(nn.Hardtanh(), "odd", zero="v", straight=True, monotone=UP),
    "Hardtanh-uneven": R(nn.Hardtanh(-1.0, 2.0), zero="v", straight=True, monotone=UP),
    "Hardtanh-far": R(nn.Hardtanh(-5e4, 5e4), "odd", zero="v", straight=True, monotone=UP),
    "Hardshrink": R(nn.Hardshrink(), "odd", zero="vs", straight=True, monotone=UP),
    "Hardshrink-far": R(nn.Hardshrink(70.0), "odd", zero="vs", straight=True, monotone=UP),
    "Softshrink": R(nn.Softshrink(), "odd", zero="vs", straight=True, monotone=UP),
    "Softshrink-0.01": R(nn.Softshrink(0.01), "odd", zero="vs", straight=True, monotone=UP),
    "Hardswish": R(nn.Hardswish(), "linear", 1, zero="v"),
    "Hardsigmoid": R(nn.Hardsigmoid(), "affine", 1, straight=True, monotone=UP),
    "Sigmoid": R(nn.Sigmoid(), "affine", 1, analytic=True, monotone=UP),
    "LogSigmoid": R(nn.LogSigmoid(), "linear", 1, analytic=True, monotone=UP),
    "Threshold": R(nn.Threshold(0.1, 20.0), zero="s", straight=True),
    "Threshold-relu": R(nn.Threshold(0.0, 0.0), "linear", 1, 1, "v", True, monotone=UP),
    "Threshold-0.3": R(nn.Threshold(0.3, 0.0), zero="vs", straight=True, monotone=UP),
    "Identity": R(nn.Identity(), "odd", 0, 1, "v", True, True, UP, polynomial=1),
}
FUNCTIONS = {
    "sin": R("sin", "odd", zero="v", analytic=True),
    "cos": R("cos", "even", zero="s", analytic=True),
    "sin-30": R(lambda z: torch.sin(30 * z), "odd", zero="v", analytic=True),
    "tan": R("tan", "odd", zero="v"),
    "sinh": R("sinh", "odd", zero="v", analytic=True, monotone=UP),
    "asinh": R("asinh", "odd", zero="v", analytic=True, monotone=UP),
    "atan": R("atan", "odd", zero="v", analytic=True, monotone=UP),
    "atanh": R("atanh", "odd", zero="v", monotone=UP, domain="partial"),
    "erf": R("erf", "odd", zero="v", analytic=True, monotone=UP),
    "erfc": R("erfc", "affine", 2, analytic=True, monotone=DOWN),
    "exp": R("exp", analytic=True, monotone=UP, rate=1.0),
    "exp2": R("exp2", analytic=True, monotone=UP, rate=math.log(2)),
    "exp-scaled": R(lambda z: 3 * torch.exp(-0.5 * z), analytic=True, monotone=DOWN, rate=-0.5),
    "expm1": R("expm1", zero="v", analytic=True, monotone=UP),
    "abs": R("abs", "even", 0, 1, "v", True),
    "neg": R("neg", "odd", 0, 1, "v", True, True, DOWN, polynomial=1),
    "square": R("square", "even", 0, 2, "vs", analytic=True, polynomial=2),
    "cube": R("cube", "odd", 0, 3, "vs", analytic=True, monotone=UP, polynomial=3),
    "quintic": R(lambda z: z**5 - z, "odd", zero="v", analytic=True, polynomial=5),
    "gaussian": R("gaussian", "even", zero="s", analytic=True),
    "sqrt": R("sqrt", "none", 0, Fraction(1, 2), "v", monotone=UP, domain="partial"),
    "rsqrt": R("rsqrt", "none", 0, Fraction(-1, 2), monotone=DOWN, domain="partial"),
    "reciprocal": R("reciprocal", "odd", 0, -1, domain="partial"),
    "log": R("log", monotone=UP, domain="partial"),
    "cube-root": R(
        lambda z: z.sign() * z.abs() ** (1 / 3), "odd", 0, Fraction(1, 3), "v", monotone=UP
    ),
    "relu2": R("relu2", "none", 0, 2, "vs", monotone=UP),
    "relu3": R(lambda z: torch.relu(z) ** 3, "none", 0, 3, "vs", monotone=UP),
    "sign": R("sign", "odd", 0, 0, "v", True, monotone=UP),
    "zero": R(lambda z: 0 * z, "odd", 0, 0, "vs", True, True, UP, polynomial=0),
    "three": R(lambda z: 0 * z + 3, "even", 0, 0, "s", True, True, UP, polynomial=0),
    "affine": R(lambda z: 2 * z + 1, "affine", 2, None, "", True, True, UP, polynomial=1),
    "tanh+0.3": R(lambda z: z.tanh() + 0.3, "affine", 0.6, analytic=True, monotone=UP),
    "scaled-silu": R(lambda z: 1.7 * nn.functional.silu(z), "linear", 1.7, zero="v", analytic=True),
    "quick_gelu": R("quick_gelu", "linear", 1, zero="v", analytic=True),
    "sinh-by-hand": R(
        lambda z: (z.exp() - (-z).exp()) / 2, "odd", zero="v", analytic=True, monotone=UP
    ),
    "tiny-tanh": R(lambda z: 1e-20 * z.tanh(), "odd", zero="v", analytic=True, monotone=UP),
}
TABLE = TORCH_MODULES | FUNCTIONS


@functools.cache
def facts_of(case: str) -> ActivationFacts:
    return activation_facts(TABLE[case].fn)


@pytest.mark.parametrize("case", TABLE)
def test_the_probe_agrees_with_the_table(case: str) -> None:
    row, facts = TABLE[case], facts_of(case)
    assert facts.reflection == row.reflection
    assert facts.reflection_constant == pytest.approx(row.constant)
    assert facts.degree == row.degree
    assert (facts.zero_value, facts.zero_slope) == ("v" in row.zero, "s" in row.zero)
    assert facts.piecewise_linear == row.straight
    assert facts.analytic == row.analytic
    assert facts.monotone == row.monotone
    assert facts.polynomial_degree == row.polynomial
    assert facts.exponential == (row.rate is not None)
    assert facts.rate == pytest.approx(row.rate or 0.0)
    assert facts.domain == row.domain


def test_every_pointwise_module_of_torch_is_in_the_table() -> None:
    mixing = {"GLU", "Softmax", "Softmax2d", "Softmin", "LogSoftmax", "MultiheadAttention"}
    listed = set(torch.nn.modules.activation.__all__) - mixing
    assert listed <= {type(row.fn).__name__ for row in TORCH_MODULES.values()}


@pytest.mark.parametrize("case", TABLE)
def test_facts_are_consistent(case: str) -> None:
    facts = facts_of(case)
    assert facts.odd == (facts.reflection == "odd") or facts.constant
    assert not facts.linear or (facts.affine and facts.polynomial and facts.degree is not None)
    assert not facts.affine or (facts.piecewise_linear and facts.analytic)
    assert not facts.odd or facts.zero_value or facts.domain == "partial"


@pytest.mark.parametrize("case", TABLE)
def test_facts_are_data(case: str) -> None:
    facts = facts_of(case)
    again = ActivationFacts.from_dict(json.loads(json.dumps(facts.to_dict())))
    assert again == facts
    assert str(facts).startswith(facts.name) and len(str(facts).splitlines()) == 6


def nearly(law: str, function: Callable[[Tensor], Tensor]) -> Any:
    return pytest.param(law, function, id=law)


@pytest.mark.parametrize(
    ("law", "function"),
    [
        nearly("odd", lambda z: z.tanh() + 1e-6 * z**2),
        nearly("odd", lambda z: z.tanh() + 1e-11),
        nearly("odd", lambda z: z.clamp(-1.0, 1.0 + 1e-9)),
        nearly("odd", lambda z: torch.where(z > 1e8, z + 1, z)),
        nearly("even", lambda z: z.cos() + 1e-9 * z),
        nearly("even", lambda z: z.abs() + 1e-9 * z.relu()),
        nearly("homogeneous", lambda z: z.relu() + 1e-9),
        nearly("homogeneous", lambda z: z.clamp(-1e-5, 1e5)),
        nearly("homogeneous", lambda z: z / (1 + 1e-9 * z.abs())),
        nearly("homogeneous", lambda z: z / (1e-9 + z.abs())),
        nearly("homogeneous", lambda z: nn.functional.softplus(1e6 * z) / 1e6),
        nearly("homogeneous", lambda z: torch.where(z > 0, z, z * z)),
        nearly("homogeneous", lambda z: z.relu() - 1e-7 * (-z).relu() ** 2),
        nearly("homogeneous", nn.Hardtanh()),
        nearly("homogeneous", nn.Hardtanh(-1e5, 1e5)),
        nearly("homogeneous", nn.Softshrink(1e-6)),
        nearly("homogeneous", nn.Softsign()),
        nearly("homogeneous", nn.ReLU6()),
        nearly("exponential", lambda z: z.exp() + 1e-9),
        nearly("exponential", lambda z: z.clamp(max=20.0).exp()),
        nearly("exponential", lambda z: z.sinh()),
        nearly("linear", lambda z: torch.where(z.abs() < 30, z, 30 * z.sign())),
        nearly("linear", lambda z: z + 1e-9 * z.sin()),
        nearly("affine", lambda z: z.clamp(min=-1e6) + 2),
        nearly("polynomial", lambda z: z**2 + 1e-6 * z.abs()),
        nearly("polynomial", lambda z: z.sin()),
        nearly("polynomial", lambda z: (z**3).clamp(max=1e9)),
        nearly("constant", lambda z: 1 + 1e-9 * z.tanh()),
        nearly("analytic", lambda z: z.sin() + 1e-4 * (z - 1).abs()),
        nearly("analytic", lambda z: z.sin() + 1e-2 * (z - 1 / 3).relu() ** 2),
        nearly("piecewise_linear", lambda z: z.relu() + 1e-9 * z.sin()),
        nearly("piecewise_linear", nn.SmoothL1Loss(reduction="none", beta=0.01).forward),
        nearly("zero_value", lambda z: z.sin() + 1e-9),
        nearly("zero_slope", lambda z: z**2 + 1e-4 * z),
        nearly("zero_slope", lambda z: z.relu()),
    ],
)
def test_a_law_that_nearly_holds_is_not_claimed(law: str, function: Callable[..., Tensor]) -> None:
    if isinstance(getattr(function, "__self__", None), nn.SmoothL1Loss):
        loss = function
        facts = activation_facts(lambda z: loss(z, torch.zeros_like(z)), hints=[0.01])
    else:
        facts = activation_facts(function)
    assert not getattr(facts, law)


@pytest.mark.parametrize(
    ("law", "function"),
    [
        nearly("linear", lambda z: nn.functional.softplus(z) + 1e-6 * z**3),
        nearly("linear", lambda z: nn.functional.silu(z) + 1e-7 * z.sin()),
        nearly("affine", lambda z: z.sigmoid() + 1e-9 * z**2),
        nearly("affine", lambda z: z.sigmoid() * (1 + 1e-9)),
    ],
)
def test_a_reflection_that_nearly_holds_is_not_claimed(
    law: str, function: Callable[[Tensor], Tensor]
) -> None:
    facts = activation_facts(function)
    # (1 + ε)σ reflects too, but at its own constant.
    assert facts.reflection != law or facts.reflection_constant == pytest.approx(
        1 + 1e-9, abs=1e-12
    )


def test_deviations_below_the_resolution_are_not_seen() -> None:
    assert activation_facts(lambda z: z.relu() + 1e-25).degree == 1
    assert activation_facts(lambda z: z.tanh() + 1e-15 * z.cos()).odd


def test_a_clamp_at_the_end_of_float32_is_out_of_reach() -> None:
    largest = torch.finfo(torch.float32).max
    assert activation_facts(lambda z: z.clamp(-largest, largest)).linear


def test_hints_announce_kinks_that_no_number_in_the_code_does() -> None:
    edge = torch.tensor(77.7, dtype=torch.float64)
    assert not activation_facts(lambda z: torch.maximum(z, -edge), hints=[77.7]).linear


@pytest.mark.parametrize(
    ("function", "complaint"),
    [
        (nn.Softmax(dim=-1), "mixes"),
        (nn.Softmax(dim=0), "mixes"),
        (lambda z: z / z.norm(), "mixes"),
        (lambda z: z - z.mean(), "mixes"),
        (lambda z: z.flip(0), "mixes"),
        (lambda z: z.cumsum(0), "mixes"),
        (nn.LayerNorm(8), "fails"),
        (nn.Dropout(0.5), "different values"),
        (nn.RReLU(), "different values"),
        (nn.GLU(dim=-1), "one number for each"),
        (lambda z: z.sum(), "one number for each"),
        (lambda z: (z, z), "one number for each"),
        (lambda z: z > 0, "torch.bool"),
        (lambda z: z.float(), "torch.float32"),
        (lambda z: z.nonsense(), "fails"),
        (lambda z: z + math.nan, "NaN"),
        (nn.PReLU(3), "fails"),
        ("rleu", "relu"),
        (7, "not a function"),
    ],
)
def test_what_is_not_one_function_of_one_number_is_refused(function: Any, complaint: str) -> None:
    with pytest.raises(ParamsymError, match=complaint):
        activation_facts(function)


def test_the_probe_leaves_modules_alone() -> None:
    module = nn.PReLU()
    activation_facts(module)
    assert module.weight.dtype == torch.float32 and module.training


Z = torch.empty(0)
OPS = {
    "ReLU": ("aten.relu.default", (Z,), {}),
    "ReLU-inplace": ("aten.relu_.default", (Z,), {}),
    "ReLU6": ("aten.hardtanh.default", (Z, 0.0, 6.0), {}),
    "LeakyReLU": ("aten.leaky_relu.default", (Z,), {}),
    "LeakyReLU-0.3": ("aten.leaky_relu_.default", (Z, 0.3), {}),
    "RReLU-eval": ("aten.rrelu.default", (Z, 0.1, 0.3, False, None), {}),
    "ELU-0.5": ("aten.elu.default", (Z, 0.5), {}),
    "CELU-2": ("aten.celu.default", (Z, 2.0), {}),
    "SELU": ("aten.selu.default", (Z,), {}),
    "GELU": ("aten.gelu.default", (Z,), {"approximate": "none"}),
    "GELU-tanh": ("aten.gelu.default", (Z,), {"approximate": "tanh"}),
    "SiLU": ("aten.silu.default", (Z,), {}),
    "Mish": ("aten.mish.default", (Z,), {}),
    "Softplus": ("aten.softplus.default", (Z,), {}),
    "Softplus-10": ("aten.softplus.default", (Z, 10.0, 20.0), {}),
    "Softplus-cut": ("aten.softplus.default", (Z, 1.0, 2.0), {}),
    "Tanh": ("aten.tanh.default", (Z,), {}),
    "Hardtanh": ("aten.hardtanh.default", (Z,), {}),
    "Hardshrink": ("aten.hardshrink.default", (Z, 0.5), {}),
    "Softshrink": ("aten.softshrink.default", (Z, 0.5), {}),
    "Hardswish": ("aten.hardswish.default", (Z,), {}),
    "Hardsigmoid": ("aten.hardsigmoid.default", (Z,), {}),
    "Sigmoid": ("aten.sigmoid.default", (Z,), {}),
    "LogSigmoid": ("aten.log_sigmoid.default", (Z,), {}),
    "Threshold": ("aten.threshold.default", (Z, 0.1, 20.0), {}),
    "Hardtanh-uneven": ("aten.clamp.default", (Z, -1.0, 2.0), {}),
    "Threshold-relu": ("aten.clamp_min.default", (Z, 0), {}),
    "sin": ("aten.sin.default", (Z,), {}),
    "erf": ("aten.erf.default", (Z,), {}),
    "exp": ("aten.exp.default", (Z,), {}),
    "exp2": ("aten.pow.Scalar", (2, Z), {}),
    "abs": ("aten.abs.default", (Z,), {}),
    "neg": ("aten.neg.default", (Z,), {}),
    "square": ("aten.pow.Tensor_Scalar", (Z, 2), {}),
    "cube": ("aten.pow.Tensor_Scalar", (Z, 3.0), {}),
    "sqrt": ("aten.pow.Tensor_Scalar", (Z, 0.5), {}),
    "rsqrt": ("aten.rsqrt.default", (Z,), {}),
    "reciprocal": ("aten.reciprocal.default", (Z,), {}),
    "log": ("aten.log.default", (Z,), {}),
    "Identity": ("aten.mul.Tensor", (Z, 1.0), {}),
    "zero": ("aten.mul.Scalar", (Z, 0.0), {}),
}


@pytest.mark.parametrize("case", OPS)
def test_operations_have_the_facts_of_their_modules(case: str) -> None:
    op, args, kwargs = OPS[case]
    found, expected = facts_of_op(op, args, kwargs), facts_of(case)
    assert found is not None
    assert found.to_dict() | {"name": ""} == pytest.approx(expected.to_dict() | {"name": ""})


@pytest.mark.parametrize(
    ("op", "args"),
    [
        ("aten.softmax.int", (Z, 0)),
        ("aten.cumsum.default", (Z, 0)),
        ("aten.add.Tensor", (Z, Z)),
        ("aten.where.ScalarSelf", (Z, 0.0, Z)),
        ("aten.gt.Scalar", (Z, 0.0)),
        ("aten.rrelu.default", (Z, 0.1, 0.3, True)),
        ("aten.prelu.default", (Z, Z)),
        ("aten.relu.nonsense", (Z,)),
        ("aten.nonsense.default", (Z,)),
        ("mine.relu.default", (Z,)),
        ("parameter", ()),
        ("getitem", (Z, 0)),
    ],
)
def test_other_operations_have_none(op: str, args: tuple[Any, ...]) -> None:
    assert facts_of_op(op, args) is None


def test_facts_of_an_operation_are_probed_once() -> None:
    first = facts_of_op("aten.leaky_relu.default", (Z, 0.07))
    assert facts_of_op("aten.leaky_relu.default", (torch.ones(2), 0.07)) is first
