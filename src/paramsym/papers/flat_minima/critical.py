"""Propositions 3.2 and C.2: what a symmetry does to gradients, critical points and minima."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle
from math import sqrt

import torch
from torch import Tensor, nn

from paramsym.numerics import matrix_rank, null_space, rank_of_spectrum, relative_error
from paramsym.papers import Outcome, Scale, claim, judge
from paramsym.papers.flat_minima.deep import STACKS, build, elements
from paramsym.papers.flat_minima.nets import (
    Equivariant,
    Params,
    act,
    broken,
    digits,
    flatten,
    hidden,
    holds,
    normal,
    outputs,
    tangent,
    unflatten,
    weights,
)

# Inputs, widths, samples: more residuals than parameters, so that critical points can be made.
SIZES: dict[Scale, tuple[Sequence[int], int]] = {
    "quick": ((8, 5, 4, 5), 40),
    "full": ((24, 12, 10, 10), 110),
}
TRIED = ("linear", "ReLU", "ReLU²", "radial", "tanh", "ReLU and radial")


@dataclass(frozen=True)
class Problem:
    """A net with data: the loss as a function of the flattened parameters."""

    net: nn.Module
    x: Tensor
    y: Tensor
    params: Params

    def loss(self, theta: Tensor) -> Tensor:
        """Mean over samples of the squared error."""
        error = outputs(self.net, unflatten(theta, self.params), self.x) - self.y
        return error.square().sum() / len(self.x)

    def gradient(self, theta: Tensor) -> Tensor:
        """∇L(θ)."""
        result: Tensor = torch.func.grad(self.loss)(theta)
        return result

    def hessian(self, theta: Tensor) -> Tensor:
        """∇²L(θ)."""
        result: Tensor = torch.func.hessian(self.loss)(theta)
        return result


def critical_problem(stack: Sequence[Equivariant], size: float, scale: Scale, seed: int) -> Problem:
    """Data for which the net's random weights are a critical point with a loss above zero.

    The residual is taken orthogonal to the columns of the Jacobian, Jᵀ(F − Y) = 0. A small one
    makes a minimum, a large one a saddle.
    """
    widths, count = SIZES[scale]
    net, x = build(stack, widths, seed), digits(count, widths[0])
    params = weights(net)
    now = outputs(net, params, x)

    def function(theta: Tensor) -> Tensor:
        return outputs(net, unflatten(theta, params), x).flatten()

    jacobian = torch.func.jacrev(function)(flatten(params))
    normals, _ = null_space(jacobian.T)
    residual = (normal(len(normals), seed=seed) @ normals).view_as(now)
    return Problem(net, x, now - size * now.norm() * residual / residual.norm(), params)


@dataclass(frozen=True)
class Inertia:
    """How many eigenvalues of a symmetric matrix are negative, zero and positive."""

    negative: int
    zero: int
    positive: int


def inertia(hessian: Tensor) -> Inertia:
    """Signs of the spectrum, cut at its widest gap."""
    spectrum = torch.linalg.eigvalsh(hessian)
    magnitudes = spectrum.abs().sort(descending=True).values
    zero = rank_of_spectrum(magnitudes, hessian.shape, "gap").tolerance
    below, above = int((spectrum < -zero).sum()), int((spectrum > zero).sum())
    return Inertia(below, len(spectrum) - below - above, above)


def linear_move(
    stack: Sequence[Equivariant], problem: Problem, seed: int, wrong: bool = False
) -> Callable[[Tensor], Tensor]:
    """θ ↦ g·θ of eq. (22); with `wrong`, the same with an element outside of the first group."""
    g, pi = elements(stack, problem.params, seed)
    if wrong:
        g[0], pi[0] = stack[0].outside(g[0])

    def move(theta: Tensor) -> Tensor:
        return flatten(act(unflatten(theta, problem.params), g, pi))

    return move


@claim(
    "flat_minima/proposition-c-2",
    source="Proposition C.2, eq. (25)",
    statement="For a linear symmetry, gᵀ∇L(gθ) = ∇L(θ) at every θ; so g maps critical points to "
    "critical points, and minima to minima.",
    expected={"gᵀ∇L(gθ) against ∇L(θ)": 0.0, "|∇L| at moved critical points": 0.0},
    expected_verdict="holds",
)
def proposition_c_2(scale: Scale, seed: int) -> Outcome:
    """Eq. (25) at random points, and what happens to minima and saddles."""
    relation, without, outside, criticality = [], [], [], []
    for name in TRIED:
        stack = STACKS[name]
        problem = critical_problem(stack, 1.0, scale, seed)
        critical = flatten(problem.params)
        theta = critical + 0.1 * normal(len(critical), seed=seed + 7)
        move, wrong = (linear_move(stack, problem, seed, wrong=w) for w in (False, True))
        here = problem.gradient(theta)
        relation.append(relative_error(_pulled_back(problem, move, theta), here))
        without.append(relative_error(problem.gradient(move(theta)), here))
        outside.append(relative_error(_pulled_back(problem, wrong, theta), here))
        criticality.append(float(problem.gradient(move(critical)).norm() / here.norm()))
    measured = {
        "nets": list(TRIED),
        "gᵀ∇L(gθ) against ∇L(θ)": max(relation),
        "∇L(gθ) against ∇L(θ)": min(without),
        "gᵀ∇L(gθ) outside of the group": min(outside),
        "|∇L| at moved critical points": max(criticality),
    }
    return Outcome(
        measured,
        judge(
            holds(max(relation)) and holds(max(criticality)),
            control=broken(min(without)) and broken(min(outside)),
        ),
    )


def _pulled_back(problem: Problem, move: Callable[[Tensor], Tensor], theta: Tensor) -> Tensor:
    """The transpose of the tangent map of θ ↦ g·θ, on the gradient at g·θ."""
    pulled = torch.func.vjp(move, theta)
    result: Tensor = pulled[1](problem.gradient(pulled[0]))[0]
    return result


@claim(
    "flat_minima/proposition-3-2",
    source="Section 3.2, Proposition 3.2",
    statement="If θ* is a critical point or a local minimum of the loss, so is g·θ* for any action "
    "of any group that keeps the loss.",
    expected={"|∇L| at moved critical points": 0.0, "|∇L| after swapping two points": 0.0},
    expected_verdict="holds with correction",
)
def proposition_3_2(scale: Scale, seed: int) -> Outcome:
    """Linear and non-linear smooth actions on minima and saddles; one that is not continuous."""
    criticality, outside, kept, minima, saddles = [], [], [], 0, 0
    for name in TRIED:
        stack = STACKS[name]
        for size in (1e-3, 3.0):
            problem = critical_problem(stack, size, scale, seed)
            critical = flatten(problem.params)
            away = problem.gradient(critical + 0.1 * normal(len(critical), seed=seed)).norm()
            before = inertia(problem.hessian(critical))
            orbit = int(matrix_rank(_tangents(stack, problem)))
            minima += before == Inertia(0, orbit, len(critical) - orbit)
            saddles += before.negative > 0
            moves = [linear_move(stack, problem, seed), _bent_move(stack, problem, seed)]
            for moved in (move(critical) for move in moves):
                criticality.append(float(problem.gradient(moved).norm() / away))
                kept.append(inertia(problem.hessian(moved)) == before)
            wrong = linear_move(stack, problem, seed, wrong=True)(critical)
            outside.append(float(problem.gradient(wrong).norm() / away))
    jump = _swap(scale, seed)
    smooth = holds(max(criticality)) and all(kept)
    measured = {
        "nets": list(TRIED),
        "minima, with a Hessian that vanishes along the orbit only": minima,
        "saddles": saddles,
        "|∇L| at moved critical points": max(criticality),
        "moved points with the same Hessian signature": sum(kept),
        "moved points": len(kept),
        "|∇L| after moves outside of the group": min(outside),
        "|∇L| after swapping two points": jump,
    }
    note = (
        ""
        if holds(jump)
        else "the action has to be differentiable: the group of two elements that swaps a saddle "
        "with another point of the same loss, and moves nothing else, is an action by the given "
        f"definition and keeps the loss, but moves the saddle to where |∇L| = {jump:.3g}"
    )
    return Outcome(
        measured,
        judge(
            smooth and holds(jump),
            amended=smooth,
            control=broken(min(outside)) and minima > 0 and saddles > 0,
        ),
        note,
    )


def _bent_move(
    stack: Sequence[Equivariant], problem: Problem, seed: int
) -> Callable[[Tensor], Tensor]:
    """A smooth action of R that is not linear: θ ↦ exp(t·L/(1+L)·M)·θ; L stays constant."""
    cases = list(zip(cycle(stack), hidden(problem.params), strict=False))
    groups = [case.group(h) for case, h in cases]
    coefficients = [0.3 * normal(g.dim, seed=seed + i) / sqrt(g.n) for i, g in enumerate(groups)]

    def move(theta: Tensor) -> Tensor:
        loss = problem.loss(theta)
        time = loss / (1 + loss)
        g = [
            group.matrix(group.exp(time * direction))
            for group, direction in zip(groups, coefficients, strict=True)
        ]
        pi = [case.pi(one) for (case, _), one in zip(cases, g, strict=True)]
        return flatten(act(unflatten(theta, problem.params), g, pi))

    return move


def _tangents(stack: Sequence[Equivariant], problem: Problem) -> Tensor:
    """The tangents (23) of each layer's Lie algebra basis, as rows."""
    widths = hidden(problem.params)
    rows = [torch.zeros(1, len(flatten(problem.params)), dtype=torch.float64)]
    for layer, (case, h) in enumerate(zip(cycle(stack), widths, strict=False)):
        for basis in case.group(h).algebra():
            m = [torch.zeros(width, width, dtype=torch.float64) for width in widths]
            dpi = list(m)
            m[layer], dpi[layer] = basis, case.dpi(basis)
            rows.append(flatten(tangent(problem.params, m, dpi))[None])
    return torch.cat(rows)


def _swap(scale: Scale, seed: int) -> float:
    """|∇L| at a point with exactly the loss of a saddle, near it but not critical."""
    problem = critical_problem(STACKS["radial"], 3.0, scale, seed)
    saddle = flatten(problem.params)
    values, vectors = torch.linalg.eigh(problem.hessian(saddle))
    down, up = vectors[:, 0], vectors[:, -1]
    level = problem.loss(saddle)

    def along(angle: float) -> Tensor:
        turn = torch.tensor(angle, dtype=torch.float64)
        point: Tensor = saddle + 0.1 * (turn.cos() * down + turn.sin() * up)
        return point

    low, high = 0.0, torch.pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if problem.loss(along(middle)) > level else (middle, high)
    other = along(low)
    return float(problem.gradient(other).norm()) if values[0] < 0 < values[-1] else 0.0
