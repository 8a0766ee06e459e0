"""Scaled dot-product attention."""

from __future__ import annotations

from dataclasses import replace

from paramsym.network.rules import rule
from paramsym.network.rules.elementwise import add
from paramsym.network.rules.layout import permute
from paramsym.network.rules.linear import matmul
from paramsym.network.solve import Op, Result
from paramsym.network.values import Value


@rule("aten.scaled_dot_product_attention.default")
def attention(op: Op) -> Result:
    """``softmax(q k^T + mask) v``: queries meet the dual of keys, values pass through."""
    query, key, value, mask, p = op.args[:5]
    if p:
        return None
    rank = len(query.axes)
    engine = op.engine
    key = permute(op, key, [*range(rank - 2), rank - 1, rank - 2])
    scores = replace(op, node=replace(op.node, shape=(*query.shape[:-1], key.shape[-1])))
    weights = matmul(scores, query, key)
    if isinstance(mask, Value):
        weights = add(scores, weights, mask)  # it may tell heads apart, and may be learned
    engine.entrywise(weights, f"{op.where} is not linear in its scores")
    engine.still(weights)
    return matmul(op, Value(weights.axes, node=op.node.index), value, means=True)
