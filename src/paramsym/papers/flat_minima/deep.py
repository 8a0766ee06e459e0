"""Propositions C.1 and 3.4: deep nets with biases, their symmetries and their gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import cycle

import torch
from torch import Tensor, nn

import paramsym as ps
from paramsym.papers import Outcome, Scale, claim, judge
from paramsym.papers.flat_minima.nets import (
    LINEAR,
    RADIAL,
    RELU,
    RELU_SQUARED,
    Equivariant,
    Params,
    act,
    at_random,
    broken,
    change,
    combination,
    digits,
    flatten,
    hidden,
    holds,
    leaky,
    member,
    normal,
    odd,
    outputs,
    perceptron,
    tangent,
    weights,
)

WIDTHS: dict[Scale, Sequence[Sequence[int]]] = {
    "quick": [(64, 24, 16, 10)],
    "full": [(64, 24, 16, 10), (64, 48, 40, 32, 24, 10)],
}
# The activations of successive layers, in turn.
STACKS: dict[str, Sequence[Equivariant]] = {
    "linear": [LINEAR],
    "ReLU": [RELU],
    "ReLU²": [RELU_SQUARED],
    "LeakyReLU": [leaky(0.1)],
    "radial": [RADIAL],
    "tanh": [odd()],
    "ReLU and radial": [RELU, RADIAL],
    "radial, ReLU² and identity": [RADIAL, RELU_SQUARED, LINEAR],
}


def build(stack: Sequence[Equivariant], widths: Sequence[int], seed: int) -> nn.Sequential:
    """A perceptron with biases."""
    return perceptron(widths, *(case.activation for case in stack), seed=seed)


def elements(
    stack: Sequence[Equivariant], params: Params, seed: int
) -> tuple[list[Tensor], list[Tensor]]:
    """(g_i) and (π_i(g_i)) over the hidden layers."""
    cases = list(zip(cycle(stack), hidden(params), strict=False))
    g = [member(case.group(h), seed + i) for i, (case, h) in enumerate(cases)]
    return g, [case.pi(one) for (case, _), one in zip(cases, g, strict=True)]


@claim(
    "flat_minima/proposition-c-1-invariance",
    source="Proposition C.1 (1), eq. (22)",
    statement="If σ_i(g_i z) = π_i(g_i)σ_i(z) in every hidden layer, then W_i ↦ g_i W_i "
    "π_{i−1}(g_{i−1})⁻¹, b_i ↦ g_i b_i (the identity at both ends) leaves a deep net with biases "
    "unchanged.",
    expected={"change of F": 0.0},
    expected_verdict="holds",
)
def invariance(scale: Scale, seed: int) -> Outcome:
    """Eq. (22) by hand on nets that read digits, and the symmetry derived from their graphs."""
    inside, outside, last, verified, enough = [], [], [], [], []
    for stack in STACKS.values():
        for widths in WIDTHS[scale]:
            net, x = build(stack, widths, seed), digits(128)
            params = weights(net)
            g, pi = elements(stack, params, seed)
            inside.append(change(net, params, act(params, g, pi), x))
            outside += _one_layer_wrong(net, params, stack, g, pi, x)
            end = member(ps.groups.GeneralLinear(widths[-1]), seed)
            last.append(change(net, params, act(params, [*g, end], pi), x))
            sym = ps.symmetries(net, x[:4])
            verified.append(ps.verify(sym, x[:32], trials=2, seed=seed).passed)
            dims = (c.group(h).dim for c, h in zip(cycle(stack), hidden(params), strict=False))
            enough.append(sym.dim >= sum(dims))
    measured = {
        "nets": list(STACKS),
        "widths": [list(widths) for widths in WIDTHS[scale]],
        "change of F": max(inside),
        "change of F with one layer's element outside of its group": min(outside),
        "change of F with g_L other than the identity": min(last),
        "derived symmetries that verify": sum(verified),
        "derived symmetries with at least this group's dimension": sum(enough),
    }
    return Outcome(
        measured,
        judge(
            holds(max(inside)) and all(verified) and all(enough),
            control=broken(min(outside)) and broken(min(last)),
        ),
        "the groups run over hidden layers only (the product printed up to L counts the output "
        "layer, where g_L has to be the identity)",
    )


def _one_layer_wrong(
    net: nn.Module,
    params: Params,
    stack: Sequence[Equivariant],
    g: list[Tensor],
    pi: list[Tensor],
    x: Tensor,
) -> list[float]:
    """Change of F when one hidden layer's pair does not belong together, for each layer."""
    changes = []
    for layer, (case, one) in enumerate(zip(cycle(stack), g, strict=False)):
        wrong_g, wrong_pi = case.outside(one)
        moved_g = [*g[:layer], wrong_g, *g[layer + 1 :]]
        moved_pi = [*pi[:layer], wrong_pi, *pi[layer + 1 :]]
        changes.append(change(net, params, act(params, moved_g, moved_pi), x))
    return changes


def gradient(net: nn.Module, params: Params, loss: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """∇L at θ, flattened."""
    return flatten(torch.func.grad(lambda p: loss(outputs(net, p, x)))(params))


def losses(count: int, classes: int, seed: int) -> dict[str, Callable[[Tensor], Tensor]]:
    """Mean square error and cross-entropy on labels drawn at random."""
    targets = normal(count, classes, seed=seed)
    labels = targets.argmax(1)
    return {
        "mean square": lambda f: (f - targets).square().sum() / count,
        "cross-entropy": lambda f: nn.functional.cross_entropy(f, labels),
    }


def cosines(rows: Tensor, direction: Tensor) -> Tensor:
    """|cos| of the angle between each row and a direction."""
    rows = rows[rows.norm(dim=1) > 0]
    angles: Tensor = (rows @ direction).abs() / (rows.norm(dim=1) * direction.norm())
    return angles


@claim(
    "flat_minima/proposition-c-1-infinitesimal",
    source="Proposition C.1 (2), eq. (23)",
    statement="The gradient of the loss is orthogonal to (M_i W_i − W_i dπ(M_{i−1}), M_i b_i) for "
    "all M_i in the Lie algebras of the hidden layers' groups.",
    expected={"largest |cos|": 0.0},
    expected_verdict="holds",
)
def infinitesimal(scale: Scale, seed: int) -> Outcome:
    """The angle between ∇L and the tangents (23), for two losses."""
    inside, outside = [], []
    for name, stack in STACKS.items():
        if name == "tanh":  # a finite group has no Lie algebra
            continue
        for widths in WIDTHS[scale]:
            net, x = build(stack, widths, seed), digits(128)
            params = weights(net)
            right, wrong = _tangents(stack, params, seed)
            for loss in losses(128, widths[-1], seed).values():
                slope = gradient(net, params, loss, x)
                inside.append(float(cosines(right, slope).max()))
                outside.append(float(cosines(wrong, slope).max()))
    measured = {
        "nets": [name for name in STACKS if name != "tanh"],
        "largest |cos|": max(inside),
        "the same outside of the algebras": min(outside),
    }
    return Outcome(
        measured,
        judge(holds(max(inside)), control=broken(min(outside))),
        "printed without its '= 0'",
    )


def _tangents(stack: Sequence[Equivariant], params: Params, seed: int) -> tuple[Tensor, Tensor]:
    """Eight tangents (23) for M in the algebras, and eight for pairs (M, −dπ(M))."""
    right, wrong = [], []
    for trial in range(8):
        cases = list(zip(cycle(stack), hidden(params), strict=False))
        groups = [case.group(h) for case, h in cases]
        m = [combination(group, seed + 100 * trial + i) for i, group in enumerate(groups)]
        dpi = [case.dpi(one) for (case, _), one in zip(cases, m, strict=True)]
        right.append(flatten(tangent(params, m, dpi)))
        wrong.append(flatten(tangent(params, m, [-one for one in dpi])))
    return torch.stack(right), torch.stack(wrong)


class Convolutional(nn.Module):
    """A small convolutional net for 8×8 images, with an activation to choose."""

    def __init__(self, activation: nn.Module) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 6, 3, padding=1)
        self.second = nn.Conv2d(6, 8, 3, stride=2)
        self.read = nn.Linear(72, 10)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        """Pixels to ten scores."""
        z = self.activation(self.first(x.unflatten(1, (1, 8, 8))))
        result: Tensor = self.read(self.activation(self.second(z)).flatten(1))
        return result


@claim(
    "flat_minima/proposition-3-4",
    source="Proposition 3.4, eq. (6)",
    statement="If a matrix Lie group is a symmetry of the loss, the gradient is orthogonal to the "
    "infinitesimal action of its whole Lie algebra, at every point.",
    expected={"largest |cos|": 0.0},
    expected_verdict="holds",
)
def orthogonal_gradient(scale: Scale, seed: int) -> Outcome:
    """The generators of derived symmetries against gradients, before and after some training.

    The control takes the same directions against the gradient of a net with another activation.
    """
    inside, outside, count = [], [], []
    nets: dict[str, Callable[[nn.Module], nn.Module]] = {
        "perceptron": lambda activation: perceptron(WIDTHS[scale][-1], activation, seed=seed),
        "convolutional": lambda activation: at_random(Convolutional(activation), seed),
    }
    for make in nets.values():
        for case in (RELU, leaky(0.1)):
            net, other = make(case.activation), make(nn.GELU())
            x, start = digits(128), weights(net)
            sym = ps.symmetries(net, x[:4])
            for loss in losses(128, 10, seed).values():
                for params in (start, _trained(net, start, loss, x)):
                    rows = sym.generators(params)
                    count.append(len(rows))
                    inside.append(float(cosines(rows, gradient(net, params, loss, x)).max()))
                    outside.append(float(cosines(rows, gradient(other, params, loss, x)).max()))
    measured = {
        "nets": list(nets),
        "generators": sum(count),
        "largest |cos|": max(inside),
        "the same with GELU in place of ReLU": min(outside),
    }
    return Outcome(measured, judge(holds(max(inside)), control=broken(min(outside))))


def _trained(net: nn.Module, params: Params, loss: Callable[[Tensor], Tensor], x: Tensor) -> Params:
    """A few steps of gradient descent, so that the point is not a random one."""
    for _ in range(20):
        grads = torch.func.grad(lambda p: loss(outputs(net, p, x)))(params)
        params = {name: value - 0.01 * grads[name] for name, value in params.items()}
    return params
