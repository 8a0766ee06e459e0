"""Derive the symmetry of a small convnet, prove it, and move the weights along it."""

import torch
from torch import nn

import paramsym as ps

torch.manual_seed(0)
net = nn.Sequential(
    nn.Conv2d(1, 6, 3),
    nn.BatchNorm2d(6),
    nn.ReLU(),
    nn.AvgPool2d(2),
    nn.Flatten(),
    nn.Linear(54, 10),
    nn.Tanh(),
    nn.Linear(10, 3),
).eval()
x = torch.randn(16, 1, 8, 8)

sym = ps.symmetries(net, x)
print(sym)
print(ps.verify(sym, x))

# Buffers move with the weights, so the whole state goes in.
state = {name: value.double() for name, value in net.state_dict().items()}
moved = sym.act(sym.sample(seed=0, scale=1.0), state)
before = torch.func.functional_call(net, state, x.double())
after = torch.func.functional_call(net, moved, x.double())
distance = max(float((moved[name] - state[name]).abs().max()) for name in state)
print(
    f"weights moved by up to {distance:.2f}, outputs by {float((after - before).abs().max()):.0e}"
)
assert torch.allclose(before, after, rtol=1e-9, atol=1e-9)
