"""Scaled dot-product attention."""

from __future__ import annotations

from dataclasses import replace

import torch

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
    if p or query.shape[:-2] != key.shape[:-2]:
        return None
    rank = len(query.axes)
    engine = op.engine
    key = permute(op, key, [*range(rank - 2), rank - 1, rank - 2])
    scores = replace(op, node=replace(op.node, shape=(*query.shape[:-1], key.shape[-1])))
    weights = matmul(scores, query, key)
    if isinstance(mask, Value):
        weights = add(scores, weights, mask)  # it may tell heads apart, and may be learned
    engine.entrywise(weights, f"{op.where} is not linear in its scores")
    engine.made(weights.axes)
    engine.made(weights.axes[:-1])
    engine.still(weights)
    rows = Value(weights.axes, node=op.node.index)
    return matmul(op, rows, value, means=_every_row_sees(op, mask))


def _every_row_sees(op: Op, mask: Value | None) -> bool:
    """Whether every query sees some key, so that its weights add up to one and not to zero."""
    if mask is None:
        return True
    known = op.engine.graph.constants.get(op.node.args[3].index)
    if known is None or known.is_meta:
        return not mask.free  # a learned bias of positions is finite
    seen = known if known.dtype == torch.bool else known > torch.finfo(known.dtype).min
    return bool(seen.any(-1).all())
