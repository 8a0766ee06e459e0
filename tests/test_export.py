"""Exports are used as another tool would: the function stays, and a wrong use changes it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn

import paramsym as ps
from paramsym.export import Mapping, Permutation, Use, mappings, permutation_spec
from zoo import dense, laws
from zoo.models import CASES, Case

State = dict[str, Tensor]
NAMES = ("gpt2", "llama", "qwen3", "gemma2", "bert", "whisper", "mixtral", "resnet", "t5")
families = pytest.mark.parametrize("name", NAMES)


def family(name: str) -> tuple[nn.Module, object, ps.Symmetry, Callable[[State], float]]:
    """A small real model, its symmetry, and how much a state changes the outputs that matter."""
    pytest.importorskip("transformers")
    from paramsym.numerics import relative_error
    from zoo.architectures import FAMILIES

    own = next(family for family in FAMILIES if family.name == name)
    model, x = own.model(), own.x(3)
    function = own.function(model, x)
    expected = function.outputs(function.state)

    def change(state: State) -> float:
        with torch.no_grad():
            after = function.outputs({**function.state, **state})
        return max(map(relative_error, after, expected))

    sym = ps.symmetries(model, x, outputs=own.positions(model))
    return model, x, sym, change


# five lines of torch each -------------------------------------------------------------------------


def units(use: Use, tensor: Tensor) -> Tensor:
    """The positions of every unit along the axis of a use."""
    return (
        torch.arange(tensor.shape[use.axis])[:, None]
        if use.blocks is None
        else torch.tensor(use.blocks)
    )


def permute(permutation: Permutation, order: Tensor, state: State) -> None:
    for use in permutation.uses:
        own, tensor = units(use, state[use.parameter]), state[use.parameter]
        index = torch.arange(tensor.shape[use.axis])
        index[own.flatten()] = own[order].flatten()
        state[use.parameter] = tensor.index_select(use.axis, index)


def scale(mapping: Mapping, factors: Tensor, state: State) -> None:
    for use in (*mapping.sources, *mapping.sinks):
        tensor = state[use.parameter].movedim(use.axis, 0).clone()
        for unit, factor in zip(units(use, state[use.parameter]), factors, strict=True):
            tensor[unit] *= factor**use.power
        state[use.parameter] = tensor.movedim(0, use.axis)


def multiply(mapping: Mapping, matrix: Tensor, start: State, state: State) -> None:
    for side, own in ((mapping.sources, matrix), (mapping.sinks, torch.linalg.inv(matrix).T)):
        for use in side:
            frame = torch.ones(start[use.parameter].shape[use.axis], dtype=torch.float64)
            for gain, eps, power in use.gains:
                values = start[gain].flatten()
                frame = frame * (values if eps is None else (values + eps).sqrt()) ** power
            z = (state[use.parameter].movedim(use.axis, -1) / frame).movedim(-1, 0).clone()
            where = units(use, state[use.parameter])
            z[where] = torch.einsum("ij,j...->i...", own, z[where])
            state[use.parameter] = (z.movedim(0, -1) * frame).movedim(-1, use.axis)


def matrix_of(mapping: Mapping, generator: torch.Generator) -> Tensor:
    n = mapping.size
    raw = torch.randn(n, n, dtype=torch.float64, generator=generator)
    if mapping.matrices == "of determinant 1 or -1":
        raw = torch.eye(n, dtype=torch.float64) + 0.3 * raw
        return raw / raw.det().abs() ** (1 / n)
    if mapping.matrices == "orthogonal, fixing the vector of ones":
        raw = raw - raw.mean(0) - raw.mean(1, keepdim=True) + raw.mean()
    rotation = torch.linalg.matrix_exp(0.3 * (raw - raw.T))
    assert torch.allclose(rotation @ rotation.T, torch.eye(n, dtype=torch.float64))
    return rotation


# laws ---------------------------------------------------------------------------------------------


def permuted(sym: ps.Symmetry, start: State) -> Iterator[tuple[str, State, State]]:
    """Every label's state under a random permutation, and the same with one use left out."""
    spec = permutation_spec(sym)
    for label, permutation in spec.permutations.items():
        order = torch.roll(torch.arange(permutation.size), 1)
        good, bad = dict(start), dict(start)
        permute(permutation, order, good)
        permute(Permutation(permutation.size, permutation.uses[1:]), order, bad)
        yield label, good, bad


@families
def test_permutations_of_real_models(name: str) -> None:
    model, _, sym, change = family(name)
    found = list(permuted(sym, dense.state_of(model)))
    assert found
    for label, good, bad in found:
        assert change(tied(sym, good)) < laws.EXACT, label
        assert change(tied(sym, bad)) > laws.CAUGHT, label


@families
def test_mappings_of_real_models(name: str) -> None:
    model, _, sym, change = family(name)
    start, generator = dense.state_of(model), torch.Generator().manual_seed(0)
    found = mappings(sym)
    assert {mapping.kind for mapping in found} & {"scale", "rotation", "mixing"}
    for mapping in found:
        good, bad = dict(start), dict(start)
        if mapping.kind == "scale":
            factors = torch.rand(mapping.size, generator=generator, dtype=torch.float64) + 0.5
            scale(mapping, factors, good)
            bad[mapping.sources[0].parameter] = good[mapping.sources[0].parameter]
        else:
            matrix = matrix_of(mapping, generator)
            multiply(mapping, matrix, start, good)
            first = (*mapping.sources, *mapping.sinks)[0].parameter
            bad[first] = good[first]
        assert change(tied(sym, good)) < laws.EXACT, mapping.name
        assert change(tied(sym, bad)) > laws.CAUGHT, mapping.name


def tied(sym: ps.Symmetry, state: State) -> State:
    """The state with every further name of a tensor following the first."""
    return {**state, **{n: state[own] for own, names in sym.aliases.items() for n in names}}


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_zoo_is_exported_soundly(case: Case) -> None:
    model, sym = laws.derived(case)
    if sym.local:
        return  # valid near these weights only: a permutation is not near
    start, x, generator = dense.state_of(model), case.x(8), torch.Generator().manual_seed(0)
    states = [(label, good) for label, good, _ in permuted(sym, start)]
    for mapping in mappings(sym):
        good = dict(start)
        if mapping.kind == "scale":
            scale(mapping, torch.rand(mapping.size, generator=generator).double() + 0.5, good)
        else:
            multiply(mapping, matrix_of(mapping, generator), start, good)
        states.append((mapping.name, good))
    for label, good in states:
        assert dense.change(model, x, tied(sym, good)) < laws.EXACT, label


def test_what_llama_trades() -> None:
    _, _, sym, _ = family("llama")
    found = {mapping.name: mapping for mapping in mappings(sym)}
    norm = next(m for name, m in found.items() if "input_layernorm" in name)
    assert [use.parameter.split(".")[-2] for use in norm.sources] == ["input_layernorm"]
    assert [use.parameter.split(".")[-2] for use in norm.sinks] == ["q_proj", "k_proj", "v_proj"]
    stream = next(m for m in found.values() if m.matrices == "orthogonal")
    assert stream.kind == "rotation" and stream.size == 8
    written = {use.parameter.split(".")[-2] for use in stream.sources}
    assert written == {"embed_tokens", "o_proj", "down_proj"}
    assert all(use.gains for use in stream.sinks) and not any(use.gains for use in stream.sources)


def test_heads_are_blocks_of_the_axis_they_are_on() -> None:
    _, _, sym, _ = family("gpt2")
    spec = permutation_spec(sym)
    weight = spec.axes["transformer.h.0.attn.c_attn.weight"]
    assert isinstance(weight[0], str) and isinstance(weight[1], tuple)
    heads = next(p for p in spec.permutations.values() if p.size == 2)
    packed = [use for use in heads.uses if use.parameter.endswith("h.0.attn.c_attn.weight")]
    starts = [use.blocks[1] for use in packed if use.blocks]
    assert starts == [(4, 5, 6, 7), (12, 13, 14, 15), (20, 21, 22, 23)]


def test_exports_are_plain_data() -> None:
    _, _, sym, _ = family("llama")
    plain = [permutation_spec(sym).to_dict(), *(mapping.to_dict() for mapping in mappings(sym))]
    assert json.loads(json.dumps(plain))
