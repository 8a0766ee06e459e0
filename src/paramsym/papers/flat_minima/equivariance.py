"""Eq. (4), eq. (24) and the examples: which activations commute with which matrices, and how."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor, nn

import paramsym as ps
from paramsym.numerics import relative_error
from paramsym.papers import Outcome, Scale, claim, judge
from paramsym.papers.flat_minima.nets import (
    LINEAR,
    RADIAL,
    RELU,
    RELU_SQUARED,
    Equivariant,
    Radial,
    act,
    broken,
    change,
    combination,
    derivative,
    digits,
    flatten,
    holds,
    homogeneous,
    leaky,
    member,
    normal,
    odd,
    one_negative,
    outputs,
    perceptron,
    power,
    same,
    tangent,
    times,
    weights,
)

WIDTHS: dict[Scale, Sequence[int]] = {"quick": (2, 16, 48), "full": (2, 16, 64, 256)}


def equivariance_error(activation: nn.Module, g: Tensor, pi: Tensor, z: Tensor) -> float:
    """How far σ(gz) is from π(g)σ(z) over the rows of z, eq. (4)."""
    return relative_error(activation(z @ g.T), activation(z) @ pi.T)


def infinitesimal_error(activation: nn.Module, m: Tensor, dpi: Tensor, z: Tensor) -> float:
    """How far dσ_z(Mz) is from dπ(M)σ(z) over the rows of z, eq. (24)."""
    value, slope = derivative(activation, z, z @ m.T)
    return relative_error(slope, value @ dpi.T)


@dataclass(frozen=True)
class Errors:
    """Largest errors inside the group, smallest ones of the pairs that do not belong to it."""

    inside: float
    outside: float
    function: float
    function_outside: float

    def to_dict(self) -> dict[str, float]:
        """Under the names of the ledger."""
        return {
            "σ(gz) against π(g)σ(z)": self.inside,
            "the same outside of the group": self.outside,
            "change of a net's outputs": self.function,
            "change of a net's outputs outside of the group": self.function_outside,
        }

    @property
    def hold(self) -> bool:
        """Equivariance, and with it invariance of the net."""
        return holds(self.inside) and holds(self.function)

    @property
    def control(self) -> bool:
        """Both break outside of the group."""
        return broken(self.outside) and broken(self.function_outside)


def errors(cases: Sequence[Equivariant], scale: Scale, seed: int) -> Errors:
    """Eq. (4) on random vectors, and action (3) on nets that read handwritten digits."""
    inside, outside, function, function_outside = [], [], [], []
    for case, h in product(cases, WIDTHS[scale]):
        z, x = normal(128, h, seed=seed), digits(128)
        net = perceptron((64, h, 10), case.activation, bias=False, seed=seed)
        params, g = weights(net), member(case.group(h), seed)
        pi, (wrong_g, wrong_pi) = case.pi(g), case.outside(g)
        inside.append(equivariance_error(case.activation, g, pi, z))
        outside.append(equivariance_error(case.activation, wrong_g, wrong_pi, z))
        function.append(change(net, params, act(params, [g], [pi]), x))
        function_outside.append(change(net, params, act(params, [wrong_g], [wrong_pi]), x))
    return Errors(max(inside), min(outside), max(function), min(function_outside))


def example(
    cases: Sequence[Equivariant], scale: Scale, seed: int, note: str = "", slip: float | None = None
) -> Outcome:
    """An example of eq. (4): the verdict is about it, a slip in its derivation is only noted."""
    found = errors(cases, scale, seed)
    measured: dict[str, object] = {"activations": [case.name for case in cases]}
    measured |= found.to_dict()
    if slip is not None:
        measured["error of the line printed on the way"] = slip
    return Outcome(measured, judge(found.hold, control=found.control), note if slip else "")


def infinitesimal(cases: Sequence[Equivariant], scale: Scale, seed: int) -> tuple[float, float]:
    """Eq. (24): largest error for M in the Lie algebra, smallest for M outside of it."""
    inside, outside = [], []
    for case, h in product(cases, WIDTHS[scale]):
        z, group = normal(128, h, seed=seed), case.group(h)
        m = combination(group, seed)
        inside.append(infinitesimal_error(case.activation, m, case.dpi(m), z))
        if group.dim < h * h:
            any_m = normal(h, h, seed=seed)
            outside.append(infinitesimal_error(case.activation, any_m, case.dpi(any_m), z))
        else:
            outside.append(infinitesimal_error(case.activation, m, -case.dpi(m), z))
    return max(inside), min(outside)


def derived_example(
    cases: Sequence[Equivariant], scale: Scale, seed: int, note: str = "", slip: float | None = None
) -> Outcome:
    """An example of Appendix C: eq. (4), and its infinitesimal form."""
    finite = example(cases, scale, seed, note, slip)
    inside, outside = infinitesimal(cases, scale, seed)
    measured = {
        **finite.measured,
        "dσ(Mz) against dπ(M)σ(z)": inside,
        "the same outside of the algebra": outside,
    }
    verdict = judge(finite.verdict == "holds" and holds(inside), control=broken(outside))
    return Outcome(measured, verdict, finite.note)


HOMOGENEOUS = [
    RELU,
    homogeneous(1.5),
    RELU_SQUARED,
    homogeneous(3),
    leaky(0.1),
]
LEAKY = [leaky(slope) for slope in (0.0, 0.01, 0.2, 2.0)]
RADIALS = [
    RADIAL,
    *(
        Equivariant(name, Radial(f), ps.groups.Orthogonal, same, same, lambda g: (1.5 * g, 1.5 * g))
        for name, f in {
            "z/(1+r²)": lambda r: 1 / (1 + r**2),
            "tanh(r)z/r": lambda r: torch.tanh(r) / r,
            "rz": lambda r: r,
        }.items()
    ),
]


@claim(
    "flat_minima/example-3-1",
    source="Example 3.1",
    statement="For widths (n, h, m) the parameters (U, V) lie in R^{n×h} × R^{h×m}, the data in "
    "R^{n×k} × R^{m×k}, and the loss is ‖Y − Uσ(VX)‖²/k.",
    expected={"widths where the printed shapes compose": 8},
    expected_verdict="holds with correction",
)
def example_3_1(scale: Scale, seed: int) -> Outcome:
    """Multiply matrices of the printed shapes, and of those of Appendix C."""
    widths = [(n, h, m) for n in (2, 3) for h in (2, 5) for m in (3, 4)]
    printed = [w for w in widths if _composes(w, u=(w[0], w[1]), v=(w[1], w[2]))]
    appendix = [w for w in widths if _composes(w, u=(w[2], w[1]), v=(w[1], w[0]))]
    measured = {
        "widths": len(widths),
        "widths where the printed shapes compose": len(printed),
        "of these with n = m": sum(n == m for n, _, m in printed),
        "widths where the shapes of Example C.1 compose": len(appendix),
    }
    holds_as_printed = printed == widths
    note = (
        ""
        if holds_as_printed
        else "the printed shapes of U and V fit the printed data only for n = m; right: U in "
        "R^{m×h} and V in R^{h×n}, as in Section 3.3 and Example C.1"
    )
    # The test has to notice a mismatch where there is one for certain.
    control = not _composes((2, 3, 4), u=(4, 3), v=(2, 2))
    return Outcome(
        measured, judge(holds_as_printed, control=control, amended=appendix == widths), note
    )


def _composes(widths: tuple[int, int, int], u: tuple[int, int], v: tuple[int, int]) -> bool:
    n, _, m = widths
    shape = {"X": (n, 7), "Y": (m, 7), "U": u, "V": v}
    x, y, left, right = (torch.zeros(shape[name], device="meta") for name in "XYUV")
    try:
        return (left @ torch.relu(right @ x)).shape == y.shape
    except RuntimeError:
        return False


@claim(
    "flat_minima/equation-4",
    source="Section 3.3, eqs. (3), (4)",
    statement="The action U ↦ Uπ(g)⁻¹, V ↦ gV is a symmetry of the loss of Uσ(Vx) if and only if "
    "σ(gz) = π(g)σ(z) for all g and z.",
    expected={"pairs where the two sides disagree": 0, "fixed batches against the 'only if'": 0},
    expected_verdict="holds with correction",
)
def equation_4(scale: Scale, seed: int) -> Outcome:
    """Pairs (g, π) of both kinds; and a batch on which the loss is blind to the difference."""
    both, equivariant, sides = 0, 0, []
    for case, h in product([LINEAR, *HOMOGENEOUS, RADIAL, odd()], WIDTHS[scale]):
        g = member(case.group(h), seed)
        for one_g, one_pi in ((g, case.pi(g)), case.outside(g), (g, torch.linalg.inv(case.pi(g)))):
            left, right = _both_sides(case.activation, one_g, one_pi, h, seed)
            sides.append((left, right))
            equivariant += holds(left)
            both += holds(left) == holds(right)
    disagree = len(sides) - both
    blind, aware = _mirrored_batch(seed)
    measured = {
        "pairs (g, π)": len(sides),
        "equivariant pairs": equivariant,
        "pairs where the two sides disagree": disagree,
        "fixed batches against the 'only if'": int(holds(blind)),
        "ReLU, g = −1, π(g) = 1: change of the loss on a mirrored batch": blind,
        "the same on any other batch": aware,
    }
    note = (
        "'only if' needs invariance for all data: for one fixed batch {x, −x} with equal labels "
        "V ↦ −V keeps the loss of a ReLU net at every (U, V), though relu(−z) ≠ relu(z)"
        if holds(blind)
        else ""
    )
    return Outcome(
        measured,
        judge(
            disagree == 0 and not holds(blind),
            amended=disagree == 0,
            control=0 < equivariant < len(sides) and broken(aware),
        ),
        note,
    )


def _both_sides(
    activation: nn.Module, g: Tensor, pi: Tensor, h: int, seed: int
) -> tuple[float, float]:
    """Error of eq. (4), and relative change of the mean square error of a net."""
    net = perceptron((64, h, 10), activation, bias=False, seed=seed)
    params, x = weights(net), digits(64)
    y = outputs(net, params, x) + normal(64, 10, seed=seed)
    before = (outputs(net, params, x) - y).square().sum()
    after = (outputs(net, act(params, [g], [pi]), x) - y).square().sum()
    z = x @ params["0.weight"].T
    return equivariance_error(activation, g, pi, z), relative_error(after, before)


def _mirrored_batch(seed: int) -> tuple[float, float]:
    """Largest change of the loss under V ↦ −V over random nets: on {x, −x}, and on another."""
    net = perceptron((5, 7, 3), nn.ReLU(), bias=False, seed=seed)
    x, y = normal(1, 5, seed=seed), normal(1, 3, seed=seed + 1)
    mirrored, other = torch.cat([x, -x]), torch.cat([x, 2 * x])
    minus, one = -torch.eye(7, dtype=torch.float64), torch.eye(7, dtype=torch.float64)
    blind: list[float] = []
    aware: list[float] = []
    for trial in range(8):
        net = perceptron((5, 7, 3), nn.ReLU(), bias=False, seed=seed + trial)
        params = weights(net)
        moved = act(params, [minus], [one])
        for batch, seen in ((mirrored, blind), (other, aware)):
            before = (outputs(net, params, batch) - y).square().sum()
            after = (outputs(net, moved, batch) - y).square().sum()
            seen.append(relative_error(after, before))
    return max(blind), min(aware)


@claim(
    "flat_minima/section-3-3-permutations",
    source="Section 3.3, remark after Theorem 3.3",
    statement="Every pointwise activation commutes with permutations, π(g) = g; this group is "
    "finite and gives no flat direction.",
    expected={"dimension of the group": 0},
    expected_verdict="holds",
)
def permutations(scale: Scale, seed: int) -> Outcome:
    """Eq. (4) for permutations, and for an activation that is not pointwise."""
    activations = (nn.Tanh(), nn.GELU(), nn.Sigmoid(), nn.SiLU(), nn.Softplus(), nn.ELU())
    inside, outside = [], []
    for activation, h in product(activations, WIDTHS[scale]):
        z, group = normal(128, h, seed=seed), ps.groups.Permutation(h)
        # A shift by one place, so that no seed draws the identity.
        g = torch.eye(h, dtype=torch.float64).roll(1, 0) @ _matrix_moving(group, seed)
        inside.append(equivariance_error(activation, g, g, z))
        outside.append(equivariance_error(_Running(activation), g, g, z))
    dim = max(ps.groups.Permutation(h).dim for h in WIDTHS[scale])
    measured = {
        "σ(gz) against π(g)σ(z)": max(inside),
        "the same for a running sum of σ": min(outside),
        "dimension of the group": dim,
    }
    return Outcome(measured, judge(holds(max(inside)) and dim == 0, control=broken(min(outside))))


def _matrix_moving(group: ps.groups.Group, seed: int) -> Tensor:
    """A random permutation that a shift by one place does not undo."""
    h = len(member(group, seed))
    shift = torch.eye(h, dtype=torch.float64).roll(1, 0)
    drawn = (member(group, seed + attempt) for attempt in range(64))
    return next(g for g in drawn if not torch.equal(shift @ g, torch.eye(h, dtype=torch.float64)))


class _Running(nn.Module):
    """An activation that mixes units, so that their order matters."""

    def __init__(self, pointwise: nn.Module) -> None:
        super().__init__()
        self.pointwise = pointwise

    def forward(self, z: Tensor) -> Tensor:
        """Running sums of the activations."""
        result: Tensor = self.pointwise(z).cumsum(-1)
        return result


@claim(
    "flat_minima/example-3-2",
    source="Example 3.2",
    statement="The identity activation satisfies σ(gz) = π(g)σ(z) with π(g) = g for all of GL(h).",
    expected={"σ(gz) against π(g)σ(z)": 0.0},
    expected_verdict="holds",
)
def example_3_2(scale: Scale, seed: int) -> Outcome:
    """Random elements of GL(h)."""
    return example([LINEAR], scale, seed)


@claim(
    "flat_minima/example-3-3",
    source="Example 3.3",
    statement="A pointwise activation with σ(cz) = c^α σ(z) for c > 0 satisfies "
    "σ(gz) = π(g)σ(z) with π(g) = g^α for positive diagonal g.",
    expected={"σ(gz) against π(g)σ(z)": 0.0},
    expected_verdict="holds",
)
def example_3_3(scale: Scale, seed: int) -> Outcome:
    """Degrees 1, 3/2, 2 and 3."""
    return example(HOMOGENEOUS, scale, seed, _SUM_SLIP, _sum_slip(seed))


_SUM_SLIP = (
    "the printed line σ(gz) = Σ_j σ(c_j z_j) = Σ_j c_j^α σ(z_j) adds the units up; each summand "
    "lacks its basis vector e_j"
)


def _sum_slip(seed: int) -> float:
    """How far the printed sum over units, a number, is from the vector σ(gz)."""
    z, c = normal(8, seed=seed), normal(8, seed=seed + 1).exp()
    return relative_error(torch.relu(c * z).sum().expand(8), torch.relu(c * z))


@claim(
    "flat_minima/example-3-4",
    source="Example 3.4",
    statement="LeakyReLU, max(z, 0) + s min(z, 0) with s ≥ 0, is homogeneous of degree 1: "
    "π(g) = g for positive diagonal g.",
    expected={"σ(gz) against π(g)σ(z)": 0.0},
    expected_verdict="holds",
)
def example_3_4(scale: Scale, seed: int) -> Outcome:
    """Slopes 0, 0.01, 0.2 and 2; the formula against torch's LeakyReLU."""
    outcome = example(LEAKY, scale, seed)
    formula = _leaky_formula(sign=1.0, seed=seed)
    other_sign = _leaky_formula(sign=-1.0, seed=seed)
    measured = {
        **outcome.measured,
        "the formula against torch's LeakyReLU": formula,
        "the same with the other sign": other_sign,
    }
    both = outcome.verdict == "holds" and holds(formula)
    return Outcome(measured, judge(both, control=broken(other_sign)))


def _leaky_formula(sign: float, seed: int) -> float:
    """max(z, 0) ± s min(z, 0) against LeakyReLU."""
    z, slope = normal(256, seed=seed), 0.2
    formula = z.clamp_min(0) + sign * slope * z.clamp_max(0)
    return relative_error(formula, nn.functional.leaky_relu(z, slope))


@claim(
    "flat_minima/example-3-5",
    source="Example 3.5",
    statement="A radial rescaling σ(z) = f(‖z‖)z satisfies σ(gz) = gσ(z) for every orthogonal g.",
    expected={"σ(gz) against π(g)σ(z)": 0.0},
    expected_verdict="holds",
)
def example_3_5(scale: Scale, seed: int) -> Outcome:
    """Four rescalings f, one of which grows."""
    return example(RADIALS, scale, seed, _NORM_SLIP, _norm_slip(seed))


_NORM_SLIP = "the printed line ‖gz‖ = zᵀgᵀgz = zᵀz = ‖z‖ lacks squares: zᵀz = ‖z‖²"


def _norm_slip(seed: int) -> float:
    z = normal(8, seed=seed)
    return relative_error(z @ z, z.norm())


@claim(
    "flat_minima/example-c-1",
    source="Example C.1",
    statement="A two-layer net of widths (n, h, m) without biases has its parameters in "
    "R^{h×n} × R^{m×h}, and its mean square error on k samples is ‖Y − Uσ(VX)‖²/k.",
    expected={"loss against that of the module": 0.0},
    expected_verdict="holds",
)
def example_c_1(scale: Scale, seed: int) -> Outcome:
    """The formula against the net as a module, for several widths."""
    found, unsquared, counted = [], [], True
    for n, h, m in ((64, 16, 10), (16, 48, 3), (5, 2, 1)):
        net = perceptron((n, h, m), nn.Tanh(), bias=False, seed=seed)
        params, x, y = weights(net), digits(50, n), normal(50, m, seed=seed)
        v, u = params.values()
        counted &= u.shape == (m, h) and v.shape == (h, n)
        loss = (y.T - u @ torch.tanh(v @ x.T)).square().sum() / 50
        module = nn.functional.mse_loss(net(x), y) * m
        found.append(relative_error(loss, module.detach()))
        unsquared.append(relative_error(loss.sqrt(), module.detach()))
    measured = {"loss against that of the module": max(found), "without the square": min(unsquared)}
    return Outcome(measured, judge(holds(max(found)) and counted, control=broken(min(unsquared))))


@claim(
    "flat_minima/example-c-2",
    source="Example C.2",
    statement="GL(h) acts on (V, U) by (gV, Ug⁻¹), and its Lie algebra by (MV, −UM).",
    expected={"derivative of the action": 0.0, "composition": 0.0, "identity": 0.0},
    expected_verdict="holds",
)
def example_c_2(scale: Scale, seed: int) -> Outcome:
    """Group axioms, and the derivative of exp(tM) at t = 0."""
    size = WIDTHS[scale][-1]
    params = weights(perceptron((64, size, 10), nn.Identity(), bias=False, seed=seed))
    group = ps.groups.GeneralLinear(size)
    g, h = member(group, seed), member(group, seed + 1)
    one, m = torch.eye(size, dtype=torch.float64), normal(size, size, seed=seed)

    def gap(left: dict[str, Tensor], right: dict[str, Tensor]) -> float:
        return max(relative_error(left[name], right[name]) for name in params)

    def along(t: Tensor) -> Tensor:
        moved = torch.linalg.matrix_exp(t * m)
        return flatten(act(params, [moved], [moved]))

    zero = torch.zeros((), dtype=torch.float64)
    _, slope = derivative(along, zero, torch.ones_like(zero))
    found = {
        "identity": gap(act(params, [one], [one]), params),
        "composition": gap(act(act(params, [h], [h]), [g], [g]), act(params, [g @ h], [g @ h])),
        "derivative of the action": relative_error(slope, flatten(tangent(params, [m], [m]))),
    }
    swapped = gap(act(act(params, [h], [h]), [g], [g]), act(params, [h @ g], [h @ g]))
    other_sign = relative_error(slope, flatten(tangent(params, [m], [-m])))
    measured = {**found, "wrong order": swapped, "wrong sign": other_sign}
    return Outcome(
        measured,
        judge(all(map(holds, found.values())), control=broken(swapped) and broken(other_sign)),
    )


@claim(
    "flat_minima/example-c-3",
    source="Example C.3, eq. (24)",
    statement="Linear nets: σ(gz) = gσ(z) for GL(h), and infinitesimally dσ(Mz) = Mσ(z).",
    expected={"dσ(Mz) against dπ(M)σ(z)": 0.0},
    expected_verdict="holds",
)
def example_c_3(scale: Scale, seed: int) -> Outcome:
    """Random elements of GL(h) and of its Lie algebra."""
    return derived_example([LINEAR], scale, seed)


@claim(
    "flat_minima/example-c-4",
    source="Example C.4, eq. (24)",
    statement="Homogeneous activations: π(g) = g^α on positive diagonal g, dπ(M) = αM, and "
    "Mz ⊙ σ'(z) = αMσ(z).",
    expected={"dσ(Mz) against dπ(M)σ(z)": 0.0},
    expected_verdict="holds",
)
def example_c_4(scale: Scale, seed: int) -> Outcome:
    """Degrees 1, 3/2, 2 and 3, with the derivative of π."""
    outcome = derived_example(HOMOGENEOUS, scale, seed, _SUM_SLIP, _sum_slip(seed))
    m = torch.diag(normal(6, seed=seed))
    zero, one = torch.zeros((), dtype=torch.float64), torch.ones((), dtype=torch.float64)

    def slope(alpha: float) -> Tensor:
        def path(t: Tensor) -> Tensor:
            return power(alpha)(torch.diag((t * m.diagonal()).exp()))

        return derivative(path, zero, one)[1]

    degrees = (1.0, 1.5, 2.0, 3.0)
    right = max(relative_error(slope(alpha), times(alpha)(m)) for alpha in degrees)
    wrong = min(relative_error(slope(alpha), times(alpha + 1)(m)) for alpha in degrees)
    measured = {
        **outcome.measured,
        "derivative of g^α against αM": right,
        "the same against (α+1)M": wrong,
    }
    both = outcome.verdict == "holds" and holds(right)
    return Outcome(measured, judge(both, control=broken(wrong)), outcome.note)


@claim(
    "flat_minima/example-c-5",
    source="Example C.5",
    statement="LeakyReLU is σ(z) = max(z, 0) − s min(z, 0) with s > 0; it is homogeneous of degree "
    "1, σ(z) = zσ'(z), and Mz ⊙ σ'(z) = Mσ(z).",
    expected={"the printed formula against LeakyReLU": 0.0},
    expected_verdict="holds with correction",
)
def example_c_5(scale: Scale, seed: int) -> Outcome:
    """The printed formula, and that of Example 3.4, against torch's LeakyReLU."""
    outcome = derived_example([_printed_leaky(), *LEAKY], scale, seed)
    printed, amended = _leaky_formula(-1.0, seed), _leaky_formula(1.0, seed)
    z = normal(256, seed=seed)
    value, slope = derivative(nn.LeakyReLU(0.2), z, z)
    euler = relative_error(slope, value)
    relu = relative_error(torch.relu(z), nn.functional.leaky_relu(z, 0.2))
    measured = {
        **outcome.measured,
        "zσ'(z) against σ(z)": euler,
        "the printed formula against LeakyReLU": printed,
        "max(z, 0) + s min(z, 0) against LeakyReLU": amended,
        "max(z, 0) against LeakyReLU": relu,
    }
    others = outcome.verdict == "holds" and holds(euler)
    note = (
        ""
        if holds(printed)
        else "the sign is a misprint: max(z, 0) − s min(z, 0) is positive for negative z; "
        "LeakyReLU is max(z, 0) + s min(z, 0), as in Example 3.4. Both are homogeneous"
    )
    return Outcome(
        measured,
        judge(others and holds(printed), amended=others and holds(amended), control=broken(relu)),
        note,
    )


def _printed_leaky() -> Equivariant:
    """max(z, 0) − s min(z, 0), as printed."""
    return Equivariant(
        "max(z, 0) − 0.2 min(z, 0)",
        nn.LeakyReLU(-0.2),
        ps.groups.PositiveScaling,
        same,
        same,
        one_negative,
    )


@claim(
    "flat_minima/example-c-6",
    source="Example C.6, eq. (24)",
    statement="Radial rescalings: σ(gz) = gσ(z) for orthogonal g, and infinitesimally "
    "dσ(Mz) = Mσ(z) for antisymmetric M.",
    expected={"dσ(Mz) against dπ(M)σ(z)": 0.0},
    expected_verdict="holds",
)
def example_c_6(scale: Scale, seed: int) -> Outcome:
    """Four rescalings f, one of which grows."""
    return derived_example(RADIALS, scale, seed, _NORM_SLIP, _norm_slip(seed))


@claim(
    "flat_minima/equation-24",
    source="Appendix C.5, eq. (24)",
    statement="If σ(gz) = π(g)σ(z) on G, then dσ_z(Mz) = dπ(M)σ(z) for every h×h matrix M.",
    expected={"M in gl(h)": 0.0},
    expected_verdict="holds with correction",
)
def equation_24(scale: Scale, seed: int) -> Outcome:
    """M in the Lie algebra of G, and M an arbitrary matrix, as the printed quantifier asks."""
    in_algebra, anywhere, wrong = [], [], []
    for case in (LINEAR, *HOMOGENEOUS, *RADIALS):
        inside, _ = infinitesimal([case], scale, seed)
        in_algebra.append(inside)
        for h in WIDTHS[scale]:
            z, m = normal(128, h, seed=seed), combination(case.group(h), seed)
            any_m = normal(h, h, seed=seed + 1)
            anywhere.append(infinitesimal_error(case.activation, any_m, case.dpi(any_m), z))
            wrong.append(infinitesimal_error(case.activation, m, -case.dpi(m), z))
    for_all, for_algebra = max(anywhere), max(in_algebra)
    measured = {"M in gl(h)": for_all, "M in the Lie algebra of G": for_algebra, "−dπ": min(wrong)}
    note = (
        ""
        if holds(for_all)
        else "printed for every M in gl(h); it holds for M in the Lie algebra of G only (ReLU and "
        "a matrix that is not diagonal break it)"
    )
    return Outcome(
        measured,
        judge(holds(for_all), amended=holds(for_algebra), control=broken(min(wrong))),
        note,
    )
