"""Moving weights in memory, in place and in files is one and the same action."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import paramsym as ps
from paramsym.network.moving.act import Act
from paramsym.network.moving.recent import Recent
from zoo import dense, laws
from zoo.models import CASES, Case


def each(cases: Sequence[Case]) -> pytest.MarkDecorator:
    """One test a case, under its name."""
    return pytest.mark.parametrize("case", cases, ids=[case.name for case in cases])


every = each(CASES)


NAMES = ("gpt2", "llama", "gemma2", "bert", "whisper", "phi", "convnext", "lstm")
families = pytest.mark.parametrize("name", NAMES)


def family(name: str) -> tuple[ps.Symmetry, dict[str, Tensor]]:
    """A small real model's symmetry, and its state at generic values."""
    pytest.importorskip("transformers")
    from zoo.architectures import FAMILIES

    own = next(family for family in FAMILIES if family.name == name)
    model = own.model()
    return ps.symmetries(model, own.x(2)), dense.state_of(model)


def largest_gap(a: dict[str, Tensor], b: dict[str, Tensor]) -> float:
    assert a.keys() == b.keys()
    return max(float((a[n] - b[n]).abs().max()) for n in a if a[n].numel())


def check_ways_to_move(sym: ps.Symmetry, state: dict[str, Tensor]) -> None:
    """In place, and with nothing remembered, tensors go where `act` takes them."""
    g = sym.sample(seed=3)
    expected = sym.act(g, state)
    target = {name: tensor.clone() for name, tensor in state.items()}
    sym.apply_(g, target)
    assert largest_gap(target, expected) < 1e-12
    forgetful = dict(Act(sym, g, state, Recent(budget=0)).each(state))
    assert largest_gap(forgetful, expected) < 1e-12


@every
def test_in_place_and_out_of_place_agree(case: Case) -> None:
    model, sym = laws.derived(case)
    check_ways_to_move(sym, dense.state_of(model))


@families
def test_real_models_move_alike_in_place(name: str) -> None:
    check_ways_to_move(*family(name))


def tied() -> nn.Sequential:
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Embedding(7, 6), nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 6), nn.Linear(6, 7)
    )
    net[4].weight = net[0].weight
    return net.double()


TOKENS = torch.arange(7)[None]


def test_a_model_moves_in_place_with_its_ties_dtypes_and_gradients() -> None:
    net = tied().float()
    sym = ps.symmetries(net, TOKENS)
    before, first = net(TOKENS), net[1].weight.detach().clone()
    g = sym.sample(seed=0, scale=0.5)
    sym.apply_(g, net)
    assert net[4].weight is net[0].weight and net[1].weight.dtype == torch.float32
    assert net[1].weight.requires_grad and net[1].weight.is_leaf
    assert not torch.allclose(net[1].weight, first, atol=1e-2)
    assert torch.allclose(net(TOKENS), before, atol=1e-5)
    with torch.no_grad():
        net[1].weight.copy_(first)  # a tensor left behind
    assert not torch.allclose(net(TOKENS), before, atol=1e-3)


@pytest.mark.parametrize("spoil", ["missing", "shape", "meta"])
def test_nothing_is_written_when_something_does_not_fit(spoil: str) -> None:
    net = tied()
    sym = ps.symmetries(net, TOKENS)
    state = {name: tensor.detach().clone() for name, tensor in net.named_parameters()}
    if spoil == "missing":
        del state["3.weight"], state["3.bias"]
    else:
        device = "meta" if spoil == "meta" else "cpu"
        shape = (6, 9) if spoil == "meta" else (6, 8)
        state["3.weight"] = torch.zeros(shape, device=device, dtype=torch.float64)
    before = {name: tensor.clone() for name, tensor in state.items()}
    with pytest.raises(ps.ParamsymError, match=r"3\.weight"):
        sym.apply_(sym.sample(seed=0), state)
    assert all(torch.equal(before[n], state[n]) for n in state if n != "3.weight")


# to first order -----------------------------------------------------------------------------------


def dense_generators(sym: ps.Symmetry, state: dict[str, Tensor]) -> Tensor:
    """d/dc act(exp(Σ c h), θ) at c = 0, all at once."""

    def moved(coefficients: Tensor) -> Tensor:
        new = sym.act(sym.exp(coefficients), state)
        return torch.cat([new[name].flatten() for name in sym.parameters])

    return torch.func.jacfwd(moved)(torch.zeros(sym.dim, dtype=torch.float64)).T


def check_directions(sym: ps.Symmetry, state: dict[str, Tensor]) -> None:
    """Rows and products of the operator are those of the dense matrix."""
    expected, directions = dense_generators(sym, state), sym.directions(state)
    assert directions.shape == expected.shape == (len(directions.labels), expected.shape[1])
    size = float(expected.abs().max())
    assert float((directions.dense() - expected).abs().max()) < 1e-10 * size
    generator = torch.Generator().manual_seed(0)
    c = torch.randn(sym.dim, generator=generator, dtype=torch.float64)
    v = torch.randn(expected.shape[1], generator=generator, dtype=torch.float64)
    combined = torch.cat([part.flatten() for part in directions.combination(c).values()])
    assert torch.allclose(combined, c @ expected, atol=1e-9 * size)
    assert torch.allclose(directions.pairing(v), expected @ v, atol=1e-9 * size)
    first, last = sym.dim // 3, min(sym.dim // 3 + 2, sym.dim)
    assert torch.allclose(directions.rows(first, last), expected[first:last], atol=1e-9 * size)
    only = directions.row(sym.dim - 1)
    rest = {n: torch.zeros(sym.shapes[n], dtype=torch.float64) for n in sym.parameters} | only
    row = torch.cat([rest[n].flatten() for n in sym.parameters])
    assert torch.allclose(row, expected[-1], atol=1e-9 * size)


@each([case for case in CASES if case.dim])
def test_directions_are_the_derivative_of_the_action(case: Case) -> None:
    model, sym = laws.derived(case)
    check_directions(sym, dense.state_of(model))


@families
def test_directions_of_real_models(name: str) -> None:
    check_directions(*family(name))


def test_a_group_without_dimension_has_no_directions() -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.GELU(), nn.Linear(3, 1))
    directions = ps.symmetries(net, torch.ones(1, 2)).directions()
    assert directions.dense().shape == directions.shape == (0, 13)
    assert directions.pairing(torch.ones(13)).shape == (0,)


def test_a_row_costs_what_it_moves() -> None:
    layers = [part for _ in range(6) for part in (nn.Linear(5, 5), nn.ReLU())]
    net = nn.Sequential(*layers, nn.Linear(5, 5))
    sym = ps.symmetries(net, torch.ones(1, 5))
    read: list[str] = []

    class Watched(dict[str, Tensor]):
        def __getitem__(self, name: str) -> Tensor:
            read.append(name)
            return super().__getitem__(name)

    directions = sym.directions()
    watched = type(directions)(sym, Watched(directions.params))
    k = next(k for k, label in enumerate(sym.labels) if label.startswith("4:"))
    assert set(watched.row(k)) == set(read) == {"4.weight", "4.bias", "6.weight"}


def test_vectors_of_another_length_are_refused() -> None:
    directions = ps.symmetries(tied(), TOKENS).directions()
    with pytest.raises(ps.ParamsymError, match="one coefficient per row"):
        directions.combination(torch.zeros(3))
    with pytest.raises(ps.ParamsymError, match="one entry per parameter"):
        directions.pairing(torch.zeros(3))
    with pytest.raises(IndexError):
        directions.row(directions.shape[0])
    with pytest.raises(IndexError):
        directions.rows(0, directions.shape[0] + 1)


# files --------------------------------------------------------------------------------------------


def saved(net: nn.Module, path: Path, dtype: torch.dtype = torch.float64) -> Path:
    own = {name: tensor.detach().to(dtype) for name, tensor in net.named_parameters()}
    save_file(own, path, metadata={"format": "pt"})
    return path


def test_a_file_moves_as_its_tensors_do(tmp_path: Path) -> None:
    with torch.device("meta"):
        abstract = tied()
    sym, net = ps.symmetries(abstract, TOKENS), tied()
    g = sym.sample(seed=0, scale=0.5)
    sym.apply_safetensors(g, saved(net, tmp_path / "a.safetensors"), tmp_path / "b.safetensors")
    moved = load_file(tmp_path / "b.safetensors")
    expected = sym.act(g, {name: tensor.detach() for name, tensor in net.named_parameters()})
    assert largest_gap(moved, expected) == 0.0
    moved["4.weight"] = moved["0.weight"]
    assert dense.change(net, TOKENS, moved) < laws.EXACT
    moved["1.weight"] = net[1].weight.detach()
    assert dense.change(net, TOKENS, moved) > laws.CAUGHT


def test_a_file_keeps_dtypes_metadata_and_what_is_not_the_models(tmp_path: Path) -> None:
    net = tied()
    sym = ps.symmetries(net, TOKENS)
    tensors = {n: t.detach().to(torch.bfloat16) for n, t in net.named_parameters()}
    tensors["not.of.the.model"] = torch.arange(3)
    save_file(tensors, tmp_path / "a.safetensors", metadata={"format": "pt"})
    g = sym.sample(seed=0)
    sym.apply_safetensors(g, tmp_path / "a.safetensors", tmp_path / "a.safetensors")
    moved = load_file(tmp_path / "a.safetensors")
    expected = sym.act(g, tensors)
    assert all(moved[n].dtype == tensors[n].dtype for n in tensors)
    assert all(torch.equal(moved[n], expected[n]) for n in tensors)
    assert b'"format":"pt"' in (tmp_path / "a.safetensors").read_bytes()[:200]


def spoilt(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    del tensors["1.bias"]
    return {**tensors, "3.weight": torch.zeros(6, 8), "3.bias": torch.zeros(5)}


def test_a_file_that_does_not_match_is_refused_with_a_list(tmp_path: Path) -> None:
    net = tied()
    sym = ps.symmetries(net, TOKENS)
    own = spoilt({name: tensor.detach() for name, tensor in net.named_parameters()})
    save_file(own, tmp_path / "a.safetensors")
    with pytest.raises(ps.ParamsymError) as caught:
        sym.apply_safetensors(sym.identity(), tmp_path / "a.safetensors", tmp_path / "b")
    for name in ("1.bias is missing", "3.weight has shape (6, 8)", "3.bias has shape (5,)"):
        assert name in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["a.safetensors"]


def test_what_is_tied_may_not_differ_in_a_file(tmp_path: Path) -> None:
    net = tied()
    sym = ps.symmetries(net, TOKENS)
    own = {n: t.detach().clone() for n, t in net.named_parameters()}
    save_file({**own, "4.weight": own["0.weight"] + 1}, tmp_path / "a.safetensors")
    with pytest.raises(ps.ParamsymError, match="one tensor in the model"):
        sym.apply_safetensors(sym.identity(), tmp_path / "a.safetensors", tmp_path / "b")
    save_file({**own, "4.weight": own["0.weight"].clone()}, tmp_path / "a.safetensors")
    sym.apply_safetensors(sym.sample(), tmp_path / "a.safetensors", tmp_path / "b.safetensors")
    moved = load_file(tmp_path / "b.safetensors")
    assert torch.equal(moved["4.weight"], moved["0.weight"])


def test_no_file_and_no_safetensors_are_named(tmp_path: Path) -> None:
    sym = ps.symmetries(tied(), TOKENS)
    (tmp_path / "a.safetensors").write_bytes(b"not one")
    for source in ("nowhere", "a.safetensors", "."):
        with pytest.raises(ps.ParamsymError, match=str(tmp_path)):
            sym.apply_safetensors(sym.identity(), tmp_path / source, tmp_path / "b")


def test_a_sharded_checkpoint_moves_and_loads(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(
        n_embd=8, n_layer=2, n_head=2, vocab_size=11, n_positions=6, use_cache=False
    )
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(config).eval()
    model.save_pretrained(tmp_path / "a", max_shard_size="2KB")
    (tmp_path / "a" / "pytorch_model.bin").write_bytes(b"old weights")
    assert len(list((tmp_path / "a").glob("*.safetensors"))) > 2
    x = {"input_ids": torch.arange(6)[None]}
    sym = ps.symmetries(model, x)
    sym.apply_safetensors(sym.sample(seed=0), tmp_path / "a", tmp_path / "b")
    again = transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "b").eval()
    assert torch.allclose(again(**x).logits, model(**x).logits, atol=1e-5)
    moved = [n for n, p in model.state_dict().items() if not torch.equal(p, again.state_dict()[n])]
    assert "transformer.wte.weight" in moved and len(moved) > 10
    assert not (tmp_path / "b" / "pytorch_model.bin").exists()
    with pytest.raises(ps.ParamsymError, match="exists already"):
        sym.apply_safetensors(sym.identity(), tmp_path / "a", tmp_path / "b")
