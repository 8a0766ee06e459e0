"""Shapes in the graph that say more than their operations one by one."""

from __future__ import annotations

from paramsym.network.graph import Graph, Node, Ref, grouping

VIEWS = (
    "aten.view.default",
    "aten.unsqueeze.default",
    "aten.squeeze.dims",
)
# What shows a parameter in another shape.
LAYOUT = (*VIEWS, "aten.permute.default", "aten.slice.Tensor")


def centred_axes(graph: Graph, node: Node) -> tuple[int, ...] | None:
    """The axes over which a node subtracts its argument's own mean: ``x - x.mean(axes, True)``.

    >>> import torch
    >>> from paramsym.network.trace import trace
    >>> class Centre(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.weight = torch.nn.Parameter(torch.ones(2, 3))
    ...
    ...     def forward(self, x):
    ...         return self.weight - self.weight.mean(-1, keepdim=True)
    >>> graph = trace(Centre(), torch.zeros(1))
    >>> centred_axes(graph, graph.nodes[graph.outputs[0]])
    (1,)
    """
    if node.op != "aten.sub.Tensor" or not all(isinstance(arg, Ref) for arg in node.args[:2]):
        return None
    whole, mean = (graph.nodes[arg.index] for arg in node.args[:2])
    if mean.op != "aten.mean.dim" or mean.args[0] != Ref(whole.index) or not mean.args[2]:
        return None
    rank = len(whole.shape or ())
    return tuple(sorted(d % rank for d in mean.args[1]))


def vector_name(graph: Graph, index: int) -> str | None:
    """The parameter that a node is, if that is a vector, axes of size one aside."""
    node = graph.nodes[index]
    if node.op in VIEWS:
        return vector_name(graph, node.args[0].index)
    one = sum(n > 1 for n in node.shape or ()) == 1
    return node.target if node.op == "parameter" and one else None


def axis_before(graph: Graph, node: Node, axis: int) -> int | None:
    """The axis that an axis of a layout operation was before it; None where it is another one."""
    if node.op == "aten.permute.default":
        return int(node.args[1][axis])
    before, after = graph.nodes[node.args[0].index].shape or (), node.shape or ()
    if node.op == "aten.slice.Tensor":
        return None if node.args[1] % len(after) == axis else axis
    for ins, outs in grouping(before, after):
        if axis in outs:
            long = [k for k in ins if before[k] > 1]
            return long[0] if len(long) == 1 and before[long[0]] == after[axis] else None
    return None


# What a parameter may go through on its way to being added, and where it is added inside of others.
_CARRIED = (*LAYOUT, "aten.expand.default", "aten.select.int")
_ADDED = {
    "aten.linear.default": {2},
    "aten.convolution.default": {2},
    "aten.layer_norm.default": {3},
    "aten.group_norm.default": {3},
    "aten.batch_norm.default": {2},
    "aten.instance_norm.default": {2},
    "aten.add.Tensor": {0, 1},
    "aten.sub.Tensor": {0, 1},
}


def only_added(graph: Graph, index: int) -> bool:
    """Whether all that ever happens to a node is that it is added to something, or joined to it."""
    for user in map(graph.nodes.__getitem__, graph.users(index)):
        places = {k for k, arg in enumerate(user.args) if arg == Ref(index)}
        joined = user.op == "aten.cat.default"
        carried = user.op in _CARRIED and only_added(graph, user.index)
        if not (joined or carried or (places and places <= _ADDED.get(user.op, set()))):
            return False
    return bool(graph.users(index)) and index not in graph.outputs


def unread_rows(graph: Graph, index: int) -> tuple[int, ...]:
    """The rows of a table that embeddings with known numbers never look up."""
    rows = range((graph.nodes[index].shape or (0,))[0])
    if index in graph.outputs:
        return ()
    read: set[int] = set()
    for user in map(graph.nodes.__getitem__, graph.users(index)):
        numbers = user.args[1] if user.op == "aten.embedding.default" else None
        known = graph.constants.get(numbers.index) if isinstance(numbers, Ref) else None
        if known is None or known.is_meta or user.args[0] != Ref(index):
            return ()
        read.update(known.flatten().tolist())
    return tuple(k for k in rows if k not in read)


def adds_eps(graph: Graph, node: Node) -> bool:
    """Whether a node adds a small number to a mean square, and only roots of it are taken."""
    number = node.args[1] if node.op == "aten.add.Tensor" else None
    if not isinstance(number, float) or not 0 < number < 0.1 or not isinstance(node.args[0], Ref):
        return False
    mean = graph.nodes[node.args[0].index].op in ("aten.mean.dim", "aten.var.correction")
    users = [graph.nodes[k] for k in graph.users(node.index)]
    roots = [u.op in ("aten.rsqrt.default", "aten.sqrt.default") or _is_root(u) for u in users]
    return mean and bool(roots) and all(roots)


def _is_root(node: Node) -> bool:
    return node.op == "aten.pow.Tensor_Scalar" and abs(float(node.args[1])) == 0.5
