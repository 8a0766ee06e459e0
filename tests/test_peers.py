"""Where other tools go silently wrong, each on a real module: the right group, and their answer.

Every case derives the group, proves it in float64 on sampled elements, and shows that the element
which a hand-written or traced specification of another tool would claim moves the function.
`explained` is a floor: what is derived today, of the flat directions that are measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

import paramsym as ps
from paramsym.network.function import ModelFunction
from zoo.architectures import FAMILIES, Chain, Family, plain

EXACT = 1e-9
CAUGHT = 1e-4  # the least that a wrong element changes the outputs by, relative to them
State = Mapping[str, Tensor]


class Square(nn.Module):
    """Linear, h * h, linear."""

    def forward(self, x: Tensor) -> Tensor:
        return x * x


def squared() -> nn.Module:
    return Chain(nn.Sequential(nn.Linear(4, 6), Square()), 5, 4, 6)


BY_NAME = {family.name: family for family in (*FAMILIES, Family("square", squared, plain(5)))}


@dataclass
class Bound:
    """A model in float64 on an input, with its symmetry."""

    family: Family

    def __post_init__(self) -> None:
        self.model = self.family.model()
        self.x = self.family.x(6)
        self.outputs = self.family.positions(self.model)
        self.sym = ps.symmetries(self.model, self.x, outputs=self.outputs)
        self.function: ModelFunction = self.family.function(self.model, self.x)
        self.state: State = self.function.state

    def change(self, new: State) -> float:
        """Largest change of the outputs, relative to them, where `new` replaces what it names."""
        tied = {a: t for n, t in new.items() for a in self.function.aliases(n)}
        before, after = (self.function.stacked({**self.state, **s}) for s in ({}, tied))
        return float((after - before).abs().max() / before.abs().max())


_bound: dict[str, Bound] = {}


def bound(name: str) -> Bound:
    """The model of a family, derived once a process."""
    if name not in _bound:
        _bound[name] = Bound(BY_NAME[name])
    return _bound[name]


def rows(*names: str, order: list[int]) -> Callable[[State], State]:
    """The entries along the first axis in another order."""
    return lambda state: {name: state[name][order] for name in names}


def columns(*names: str, order: list[int]) -> Callable[[State], State]:
    """The entries along the second axis in another order."""
    return lambda state: {name: state[name][:, order] for name in names}


def both(*changes: Callable[[State], State]) -> Callable[[State], State]:
    """Several changes, one after the other."""

    def change(state: State) -> State:
        new: dict[str, Tensor] = {}
        for one in changes:
            new |= one({**state, **new})
        return new

    return change


# Group norm: channels move inside their group, and groups as wholes.
WITHIN, GROUPS, ACROSS = [1, 0, 2, 3], [2, 3, 0, 1], [2, 1, 0, 3]
JOINED = ("join.0.weight", "join.0.bias", "join.1.weight", "join.1.bias")


def channels(order: list[int]) -> Callable[[State], State]:
    return both(rows(*JOINED, order=order), columns("head.weight", order=order))


# SwiGLU: gate, up and down share their units; only the branch without activation rescales.
MLP = "model.layers.0.mlp."
GATE, UP, DOWN = (f"{MLP}{name}_proj.weight" for name in ("gate", "up", "down"))
UNITS = [1, 0, *range(2, 10)]


def units(*written: str) -> Callable[[State], State]:
    return both(rows(*written, order=UNITS), columns(DOWN, order=UNITS))


def rescaled(name: str, by: float = 2.0) -> Callable[[State], State]:
    return lambda state: {name: by * state[name], DOWN: state[DOWN] / by}


# Packed qkv: 24 rows are q, k, v times two heads of four.
PACKED = "body.layers.0.self_attn."
PACKED_NAMES = (f"{PACKED}in_proj_weight", f"{PACKED}in_proj_bias")
HEADS = [4, 5, 6, 7, 0, 1, 2, 3]
MIXED = [4, 1, 2, 3, 0, 5, 6, 7]  # one unit of one head against one of the other


def attention(order: list[int]) -> Callable[[State], State]:
    """The same permutation of the units of q, k, v and of what the output reads."""
    packed = [8 * part + k for part in range(3) for k in order]
    out = columns(f"{PACKED}out_proj.weight", order=order)
    return both(rows(*PACKED_NAMES, order=packed), out)


def one_axis(state: State) -> State:
    """What a map that loses track of the pack does: it permutes the rows as one axis of 24."""
    order = [*range(1, 24), 0]
    return both(rows(*PACKED_NAMES, order=order))(state)


# Tied embeddings: a gain folded into the head lands in the embedding as well.
def folded(state: State) -> State:
    gain, bias = state["transformer.ln_f.weight"], state["transformer.ln_f.bias"]
    head = state["transformer.wte.weight"] * gain
    ones = {"transformer.ln_f.weight": torch.ones_like(gain)}
    return {"transformer.wte.weight": head, **ones, "transformer.ln_f.bias": bias / gain}


# Batch norm: the running statistics belong to the channels.
FIRST = "resnet.encoder.stages.0.layers.0.layer."
NORM = f"{FIRST}0.normalization."
CONV, READER = f"{FIRST}0.convolution.weight", f"{FIRST}1.convolution.weight"
SWAP = [1, 0, 2, 3]


def stem(*buffers: str) -> Callable[[State], State]:
    written = (CONV, f"{NORM}weight", f"{NORM}bias", *(f"{NORM}{name}" for name in buffers))
    return both(rows(*written, order=SWAP), columns(READER, order=SWAP))


# h * h: a scale s comes out as s².
def squares(power: int) -> Callable[[State], State]:
    def change(state: State) -> State:
        first = {name: 2 * state[name] for name in ("body.0.weight", "body.0.bias")}
        return {**first, "last.weight": state["last.weight"] / 2**power}

    return change


# The logits: an axis that the model returns.
LOGITS = ("classifier.1.weight", "classifier.1.bias")


# Recurrence: a hidden unit is a row of each gate, and a column of what reads the state.
def hidden(gates: int, *moved: int) -> Callable[[State], State]:
    """Units 0 and 1 of the last layer swapped in some gates, and for all readers."""
    order = [4 * g + k for g in range(gates) for k in (SWAP if g in moved else range(4))]
    names = [f"body.{kind}_l1" for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
    last = list(SWAP) + list(range(4, 8)) if gates == 3 else SWAP
    return both(
        rows(*names, order=order),
        columns("body.weight_hh_l1", order=SWAP),
        columns("last.weight", order=last),
    )


@dataclass(frozen=True)
class Pain:
    """A failure on record: the right elements, the wrong ones, and how much is explained."""

    name: str
    family: str
    right: tuple[Callable[[State], State], ...]
    wrong: tuple[Callable[[State], State], ...]
    explained: int
    complete: bool = False


PAINS = (
    Pain("groupnorm", "unet", (channels(WITHIN), channels(GROUPS)), (channels(ACROSS),), 22),
    Pain(
        "swiglu",
        "llama",
        (units(GATE, UP), rescaled(UP), rescaled(UP, -1.0)),
        (units(GATE), units(UP), rescaled(GATE)),
        98,
    ),
    Pain(
        "packed-qkv",
        "transformer-encoder-pre",
        (attention(HEADS),),
        (attention(MIXED), one_axis),
        188,
    ),
    Pain("tied-embeddings", "gpt2", (), (folded,), 268),
    Pain(
        "batchnorm-buffers",
        "resnet",
        (stem("running_mean", "running_var"),),
        (stem(), stem("running_mean")),
        50,
        complete=True,
    ),
    Pain("h-times-h", "square", (squares(2),), (squares(1),), 26, complete=True),
    Pain("logits", "resnet", (), (rows(*LOGITS, order=[1, 0, *range(2, 7)]),), 50, complete=True),
    Pain("lstm", "lstm", (hidden(4, 0, 1, 2, 3),), (hidden(4, 0), hidden(4, 0, 1, 3)), 16),
    Pain("gru", "gru", (hidden(3, 0, 1, 2),), (hidden(3, 0), hidden(3, 1, 2)), 16),
)
each = pytest.mark.parametrize("pain", PAINS, ids=[pain.name for pain in PAINS])


@each
def test_the_derived_group_is_exact(pain: Pain) -> None:
    """Discrete and continuous elements, each alone and together."""
    case = bound(pain.family)
    proof = ps.verify(case.sym, case.x)
    assert proof.passed and proof.max_error < EXACT, str(proof)
    for seed, (scale, discrete) in enumerate([(0.2, False), (0.0, True), (0.2, True)]):
        g = case.sym.sample(seed=seed, scale=scale, discrete=discrete)
        moved = case.sym.act(g, case.state)
        assert moved.keys() == case.state.keys()
        assert case.change(moved) < EXACT


@each
def test_the_right_elements_are(pain: Pain) -> None:
    case = bound(pain.family)
    assert all(case.change(right(case.state)) < EXACT for right in pain.right)


@each
def test_what_others_claim_moves_the_function(pain: Pain) -> None:
    case = bound(pain.family)
    assert all(case.change(wrong(case.state)) > CAUGHT for wrong in pain.wrong)


@each
def test_no_less_is_explained_than_was(pain: Pain) -> None:
    case = bound(pain.family)
    (x,) = case.family.many(case.model)
    ledger = ps.explain(case.model, x, sym=case.sym)
    assert ledger.sound, str(ledger)
    assert pain.explained <= ledger.explained <= ledger.nullity
    assert not pain.complete or ledger.completeness == 1, str(ledger)


@pytest.mark.parametrize("name", ["resnet", "gpt2", "unet", "lstm", "square"])
def test_the_axis_that_is_returned_is_pinned(name: str) -> None:
    """No permutation of the logits is ever sampled, and the audit says why."""
    case = bound(name)
    heads = {
        "resnet": "classifier.1.weight",
        "unet": "head.weight",
        "gpt2": "transformer.wte.weight",
    }
    head = heads.get(name, "last.weight")
    axis = next(a for a in case.sym.audit().axes if (a.parameter, a.axis) == (head, 0))
    assert axis.state == "pinned" and axis.reason


def test_buffers_move_with_their_channels() -> None:
    """The weights of a sampled permutation beside the old statistics: another function."""
    case = bound("resnet")
    g = case.sym.sample(seed=3, scale=0.0, discrete=True)
    moved = case.sym.act(g, case.state)
    weights = {name: moved[name] for name, _ in case.model.named_parameters()}
    assert case.change(moved) < EXACT and case.change(weights) > CAUGHT
    with pytest.raises(ps.ParamsymError, match="state_dict"):
        case.sym.act(g, dict(case.model.named_parameters()))


def test_a_tied_tensor_moves_once() -> None:
    """Every name of a tied tensor comes back with the same values."""
    case = bound("gpt2")
    assert {"transformer.wte.weight", "lm_head.weight"} <= case.state.keys()
    moved = case.sym.act(case.sym.sample(seed=1), case.state)
    assert torch.equal(moved["transformer.wte.weight"], moved["lm_head.weight"])
