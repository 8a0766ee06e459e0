"""Linear maps with learned matrices, matrix products, embeddings."""

from __future__ import annotations

from dataclasses import replace

from paramsym.network.rules import rule
from paramsym.network.rules.contract import combine
from paramsym.network.rules.elementwise import add
from paramsym.network.rules.layout import held, permute, view
from paramsym.network.rules.reading import with_reading
from paramsym.network.rules.reduce import summed
from paramsym.network.solve import Op, Result
from paramsym.network.values import Value, rekeyed


@rule("aten.linear.default")
def linear(op: Op) -> Result:
    """``x W^T + b``: the input meets the dual of W's second axis, the output is W's first."""
    x, weight, bias = op[0], op[1], op[2]
    y = combine(op, x, weight, contract=[(len(x.axes) - 1, 1)])
    y = with_reading(op, y, weight, 1)
    return y if bias is None else add(op, y, bias)


@rule("aten.matmul.default")
def matmul_rule(op: Op) -> Result:
    """Contracts the last axis of one with the last but one of the other."""
    total = op.engine.sums.of(op.node.args[0])
    means = total is not None and total.number == 1.0 and total.axis == len(op[0].axes) - 1
    y = matmul(op, op[0], op[1], means=means)
    return with_reading(op, y, op[1], 0) if len(op[1].axes) == 2 else y


def matmul(op: Op, a: Value, b: Value, *, means: bool = False) -> Value:
    """``a @ b`` with broadcast batch axes; vectors are read as a row and as a column.

    With ``means`` the rows of ``a`` add up to one.
    """
    shape = op.node.shape or ()
    rows = a if len(a.axes) > 1 else view(op, a, (1, *a.shape))
    columns = b if len(b.axes) > 1 else view(op, b, (*b.shape, 1))
    rank = max(len(rows.axes), len(columns.axes))
    rows, columns = op.engine.broadcast(rows, rank), op.engine.broadcast(columns, rank)
    batch = [(k, k) for k in range(rank - 2)]
    product = combine(op, rows, columns, batch, [(rank - 1, rank - 2)], means=means)
    return product if product.shape == shape else view(op, product, shape)


@rule("aten.einsum.default")
def einsum(op: Op) -> Result:
    """Any sum of products of two tensors."""
    equation, operands = op[0].replace(" ", ""), list(op[1])
    if "." in equation or "->" not in equation:
        return None
    inputs, output = equation.split("->")
    terms = inputs.split(",")
    if any(len(set(term)) < len(term) for term in terms) or not set(output) <= set(inputs):
        return None
    value, letters = operands[0], list(terms[0])
    for k, (other, term) in enumerate(zip(operands[1:], terms[1:], strict=True)):
        later = set(output).union(*terms[k + 2 :])
        value, letters = _einsum_pair(op, value, letters, other, list(term), later)
    value, letters = _sum_out(op, value, letters, set(output))
    return permute(op, value, [letters.index(letter) for letter in output])


def _einsum_pair(
    op: Op, a: Value, one: list[str], b: Value, other: list[str], later: set[str]
) -> tuple[Value, list[str]]:
    """The product of two operands; what neither the output nor later operands need is summed."""
    a, one = _sum_out(op, a, one, later | set(other))
    b, other = _sum_out(op, b, other, later | set(one))
    common = [letter for letter in one if letter in other]
    kept = [letter for letter in common if letter in later]
    gone = [letter for letter in common if letter not in later]
    batch = [(one.index(x), other.index(x)) for x in kept]
    value = combine(op, a, b, batch, [(one.index(x), other.index(x)) for x in gone])
    rest = [x for x in one if x not in common] + [x for x in other if x not in common]
    return value, kept + rest


def _sum_out(op: Op, x: Value, letters: list[str], needed: set[str]) -> tuple[Value, list[str]]:
    axes = [k for k, letter in enumerate(letters) if letter not in needed]
    if not axes:
        return x, letters
    return summed(op, x, axes, keepdim=False), [x for x in letters if x in needed]


@rule("aten.embedding.default")
def embedding(op: Op) -> Result:
    """Rows picked by token: which row is which is fixed, the columns are free to move."""
    weight, tokens = op[0], op[1]
    rows = held(op, weight, [0], "looks rows up by their number")
    shape = (*tokens.shape, weight.shape[1])
    fixed = op.engine.fixed(tokens.shape).axes
    y = replace(rekeyed(rows, (*fixed, rows.axes[1])), node=op.node.index)
    name = op.engine.looked_up(op.node.args[0])
    if name is None:
        return y
    last = frozenset({len(shape) - 1})
    return replace(y, flow=op.engine.flows.source(name, (1, weight.shape[1]), shape, last))
