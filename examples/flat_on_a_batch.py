"""Flat directions of a ReLU net: the architecture's, the batch's, and who explains which."""

import torch
from torch import nn

import paramsym as ps

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
with torch.no_grad():
    net[0].bias[:3] += 20  # always on
    net[0].bias[3:5] -= 20  # never on
batch = torch.randn(100, 2)

architecture = ps.explain(net, batch)
print("by the architecture:", architecture)
on_batch = ps.symmetries(net, batch, on=batch)
print("on this batch:", ps.explain(net, batch, sym=on_batch))
assert architecture.completeness < 1
assert ps.explain(net, batch, sym=on_batch).completeness == 1
