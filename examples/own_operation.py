"""Teach the engine an operation it does not know, and have the claim checked."""

import torch
from torch import Tensor, nn

import paramsym as ps
from paramsym.network.rules import rule
from paramsym.network.rules.elementwise import pointwise


@torch.library.custom_op("example::leaky", mutates_args=())
def leaky(z: Tensor) -> Tensor:
    """max(z, z / 10), written so that no tracer sees inside."""
    return torch.maximum(z, z / 10)


@leaky.register_fake
def _(z: Tensor) -> Tensor:
    return torch.empty_like(z)


class Net(nn.Module):
    """One hidden layer of the new activation."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(3, 5), nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        """outer(leaky(inner(x)))."""
        return self.outer(leaky(self.inner(x)))


torch.manual_seed(0)
net, x = Net(), torch.randn(8, 3)

unknown = ps.symmetries(net, x)
print("without a rule:", unknown.dim, unknown.pinned)
assert unknown.dim == 0 and unknown.pinned


@rule("example.leaky.default")
def leaky_rule(op):
    """It works entry by entry, with the facts probed of the function itself."""
    return pointwise(op, op[0], ps.activation_facts(leaky))


known = ps.symmetries(net, x)
print("with the rule:", [str(space.group) for space in known.spaces], known.dim)
assert known.dim == 5
assert ps.verify(known, x).passed


@rule("example.leaky.default")
def wrong_rule(op):
    """Declared odd by mistake."""
    return pointwise(op, op[0], ps.activation_facts(torch.tanh))


proof = ps.verify(ps.symmetries(net, x), x)
print("with a wrong rule:", proof.culprits[0])
assert not proof.passed

rule("example.leaky.default")(leaky_rule)
