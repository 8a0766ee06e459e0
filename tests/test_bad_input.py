"""Bad input gives a correct answer or one clear error, never a partial group silently."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import paramsym as ps
from zoo import dense, laws
from zoo.models import mlp


def net(*widths: int) -> nn.Module:
    """A small tanh MLP in float64."""
    torch.manual_seed(0)
    return mlp(nn.Tanh, *(widths or (4, 5, 3))).double()


def x64(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def explained(error: pytest.ExceptionInfo[ps.ParamsymError], *words: str) -> None:
    """The message names what it is about, and says what to do next."""
    text = str(error.value)
    assert "\n" not in text.strip(), "one clear error, not a dump"
    assert all(word in text for word in words), text
    assert error.value.remedy, text


class Branching(nn.Module):
    """Takes one of two layers depending on the data."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(4, 5), nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        first = self.a if x.sum() > 0 else self.b
        return self.c(torch.tanh(first(x)))


def test_data_dependent_branch_is_marked_or_refused() -> None:
    """Valid for the branch taken and labelled so, or a clear refusal."""
    model = Branching().double()
    x = x64(2, 4).abs()
    try:
        sym = ps.symmetries(model, x)
    except ps.ParamsymError as error:
        assert error.remedy
        return
    assert "branch" in str(sym), "a group of one branch must say so"
    state = dense.state_of(model)
    # The other branch's layer is not free: it is used on other inputs.
    moved = sym.act(sym.sample(seed=0, scale=0.2), state)
    assert torch.equal(moved["b.weight"], state["b.weight"])
    assert dense.change(model, x64(5, 4).abs(), moved) < laws.EXACT


def test_untraceable_model_is_one_clear_error() -> None:
    class Leaves(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            raise KeyError("missing feature")

    with pytest.raises(ps.ParamsymError) as error:
        ps.symmetries(Leaves(), torch.randn(2, 4))
    explained(error, "missing feature")


def test_numpy_round_trip_is_not_silently_partial() -> None:
    """Values that leave torch cut the graph: refused, or whatever they touch is pinned."""

    class Detour(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(4, 5), nn.Linear(5, 3)

        def forward(self, x: Tensor) -> Tensor:
            h = torch.from_numpy(torch.tanh(self.a(x)).detach().numpy().copy())
            return self.b(h)

    model = Detour().double()
    try:
        sym = ps.symmetries(model, x64(3, 4))
    except ps.ParamsymError as error:
        assert error.remedy
        return
    moved = sym.act(sym.sample(seed=0), dense.state_of(model))
    assert dense.change(model, x64(5, 4), moved) < laws.EXACT


@pytest.mark.parametrize("shape", [(2, 5), (4,), (2, 3, 7)], ids=str)
def test_inputs_of_the_wrong_shape(shape: tuple[int, ...]) -> None:
    if shape == (4,):  # a single sample without a batch is a correct input of a linear net
        assert ps.symmetries(net(), x64(*shape)).dim == 0
        return
    with pytest.raises(ps.ParamsymError) as error:
        ps.symmetries(net(), x64(*shape))
    explained(error)


def test_wrong_number_of_inputs() -> None:
    with pytest.raises(ps.ParamsymError) as error:
        ps.symmetries(net(), (x64(2, 4), x64(2, 4)))
    explained(error)


def test_unknown_keyword_input() -> None:
    with pytest.raises(ps.ParamsymError) as error:
        ps.symmetries(net(), {"picture": x64(2, 4)})
    explained(error, "picture")


def test_no_tensor_at_all() -> None:
    with pytest.raises(ps.ParamsymError) as error:
        ps.symmetries(net(), "not a tensor")
    explained(error)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_non_finite_weights(value: float) -> None:
    """Deriving needs no weights; checking them names the tensor."""
    model = net()
    with torch.no_grad():
        model[0].weight[1, 2] = value
    try:
        sym = ps.symmetries(model, x64(2, 4))
    except ps.ParamsymError as error:
        assert "0.weight" in str(error)
        return
    assert sym.log10_order > 1, "the graph alone gives the group"
    with pytest.raises(ps.ParamsymError) as caught:
        ps.verify(sym)
    explained(caught, "0.weight")
    with pytest.raises(ps.ParamsymError) as caught:
        ps.explain(model, x64(20, 4))
    explained(caught, "0.weight")


def test_non_finite_inputs() -> None:
    sym = ps.symmetries(net(), x64(2, 4))
    with pytest.raises(ps.ParamsymError) as error:
        ps.verify(sym, torch.full((2, 4), float("nan"), dtype=torch.float64))
    explained(error)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision(dtype: torch.dtype) -> None:
    """Derived like any other, proved on a float64 copy, acting in half precision."""
    torch.manual_seed(0)
    model = mlp(nn.ReLU, 4, 5, 3).to(dtype)
    sym = ps.symmetries(model, torch.randn(2, 4).to(dtype))
    assert sym.dim == 5
    assert ps.verify(sym).passed
    state = dense.state_of(model)
    moved = sym.act(sym.sample(seed=0, scale=0.1), state)
    assert {value.dtype for value in moved.values()} == {dtype}
    assert all(value.isfinite().all() for value in moved.values())


def test_autocast_inside_the_model() -> None:
    """A cast to half inside forward must not make the float64 proof fail or lie."""

    class Casting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(4, 5), nn.Linear(5, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.b(torch.relu(self.a(x)).to(torch.float32))

    torch.manual_seed(0)
    sym = ps.symmetries(Casting(), torch.randn(2, 4))
    assert sym.dim == 5
    assert ps.verify(sym).passed


def test_complex_parameters() -> None:
    """A correct group that leaves them alone, or a refusal that names them."""

    class Complex(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(4, 5), nn.Linear(5, 3)
            self.phase = nn.Parameter(torch.randn(3, dtype=torch.complex128))

        def forward(self, x: Tensor) -> Tensor:
            return (self.b(torch.tanh(self.a(x))) * self.phase).abs()

    torch.manual_seed(0)
    model = Complex()
    model.a.double(), model.b.double()
    try:
        sym = ps.symmetries(model, x64(2, 4))
    except ps.ParamsymError as error:
        assert "phase" in str(error)
        assert error.remedy
        return
    state = dense.state_of(model)
    moved = sym.act(sym.sample(seed=0, scale=0.2), state)
    assert dense.change(model, x64(3, 4), moved) < laws.EXACT


class Empty(nn.Module):
    """No parameters at all."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(x)


def test_empty_model() -> None:
    """The trivial group, or an error that says the model has no parameters."""
    try:
        sym = ps.symmetries(Empty(), x64(2, 4))
    except ps.ParamsymError as error:
        assert "parameter" in str(error)
        return
    assert laws.trivial(sym)
    assert sym.act(sym.identity(), {}) == {}
    with pytest.raises(ps.ParamsymError):
        ps.verify(sym)


def test_empty_batch() -> None:
    """Deriving may work, but a proof on nothing is refused."""
    try:
        sym = ps.symmetries(net(), x64(0, 4))
    except ps.ParamsymError as error:
        assert error.remedy
        return
    with pytest.raises(ps.ParamsymError):
        ps.verify(sym)


def test_model_without_floating_output() -> None:
    class Classes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.a(x).argmax(-1)

    with pytest.raises(ps.ParamsymError) as error:
        ps.symmetries(Classes().double(), x64(2, 4))
    explained(error)


def test_output_that_ignores_the_parameters() -> None:
    """Everything is free; the check says that it would show nothing."""

    class Constant(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            return x * 2.0

    model = Constant().double()
    sym = ps.symmetries(model, x64(2, 4))
    assert sym.dim == 15
    with pytest.raises(ps.ParamsymError):
        ps.verify(sym)


def test_unused_parameter_is_a_space_of_its_own() -> None:
    class Wrapper(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = mlp(nn.Tanh, 4, 5, 3)
            self.extra = nn.Parameter(torch.randn(2, 3))

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(x)

    sym = ps.symmetries(Wrapper().double(), x64(2, 4))
    assert sym.dim == 6
    (space,) = [space for space in sym.spaces if any("extra" in str(p) for p in space.parameters)]
    assert space.group.dim == 6


def test_frozen_parameters() -> None:
    """They move like any other, unless only trainable ones may."""
    model = net()
    model[0].requires_grad_(False)
    assert ps.symmetries(model, x64(2, 4)).log10_order > 1
    only = ps.symmetries(model, x64(2, 4), trainable_only=True)
    assert laws.trivial(only), str(only)


def test_modules_on_several_devices() -> None:
    """Half on the meta device: one error that names the devices, or a derivation without values."""
    model = net()
    model[2].to("meta")
    try:
        sym = ps.symmetries(model, x64(2, 4))
    except ps.ParamsymError as error:
        assert "meta" in str(error) and "cpu" in str(error)
        assert error.remedy
        return
    assert sym.log10_order > 2
    with pytest.raises(ps.ParamsymError):
        ps.verify(sym)


def test_input_on_another_device() -> None:
    """Deriving reads shapes only; where the input lies does not matter, or it is said."""
    try:
        sym = ps.symmetries(net(), x64(2, 4).to("meta"))
    except ps.ParamsymError as error:
        assert "meta" in str(error)
        return
    assert sym.log10_order > 2


def test_lazy_parameters() -> None:
    model = nn.Sequential(nn.LazyLinear(3), nn.Tanh(), nn.Linear(3, 2))
    with pytest.raises(ps.ParamsymError) as error:
        ps.symmetries(model, torch.randn(2, 4))
    explained(error, "0.weight")


def test_not_a_module() -> None:
    with pytest.raises(ps.ParamsymError) as error:
        ps.symmetries(lambda x: x, x64(2, 4))
    explained(error)


# ---------------------------------------------------------------------------- wrong parameters


def test_missing_and_misshapen_parameters() -> None:
    model = net()
    sym = ps.symmetries(model, x64(2, 4))
    state = dense.state_of(model)
    g = sym.sample(seed=0)
    with pytest.raises(ps.ParamsymError) as error:
        sym.act(g, state | {"0.weight": torch.zeros(6, 4, dtype=torch.float64)})
    explained(error, "0.weight")
    with pytest.raises(ps.ParamsymError) as error:
        sym.act(g, {name: value for name, value in state.items() if name != "2.weight"})
    explained(error, "2.weight")


def test_unbound_symmetry_says_so() -> None:
    model = net()
    loaded = ps.Symmetry.from_dict(ps.symmetries(model, x64(2, 4)).to_dict())
    with pytest.raises(ps.ParamsymError) as error:
        ps.verify(loaded, x64(2, 4))
    assert "bind" in str(error.value) or "model" in str(error.value)
    assert ps.verify(loaded, x64(2, 4), model=model).passed
    assert ps.verify(loaded.bind(model), x64(2, 4)).passed


def test_binding_another_model_is_refused() -> None:
    loaded = ps.Symmetry.from_dict(ps.symmetries(net(), x64(2, 4)).to_dict())
    with pytest.raises(ps.ParamsymError) as error:
        loaded.bind(net(4, 6, 3))
    explained(error, "0.weight")


def test_spoilt_saved_symmetry() -> None:
    data = ps.symmetries(net(), x64(2, 4)).to_dict()
    with pytest.raises(ps.ParamsymError):
        ps.Symmetry.from_dict({})
    with pytest.raises(ps.ParamsymError):
        ps.Symmetry.from_dict({key: None for key in data})


def test_elements_of_another_symmetry_are_refused() -> None:
    small, large = ps.symmetries(net(), x64(2, 4)), ps.symmetries(net(4, 6, 6, 3), x64(2, 4))
    with pytest.raises(ps.ParamsymError):
        small.act(large.sample(seed=0), dense.state_of(net()))


def test_quantised_modules_are_refused() -> None:
    """Their weights are no tensors of the model, so that nothing could be said of them."""

    net = nn.Sequential(nn.Linear(4, 6), torch.ao.nn.quantized.dynamic.Linear(6, 3))
    with pytest.raises(ps.ParamsymError, match=r"quantised.*\(at 1\)"):
        ps.symmetries(net, torch.randn(2, 4))


def test_low_rank_adapters_are_derived() -> None:
    """A sum of a matrix and a product of two: each is read and moved, and what is claimed holds."""

    class Adapted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.base = nn.Linear(4, 6)
            self.down, self.up = nn.Linear(4, 2, bias=False), nn.Linear(2, 6, bias=False)

        def forward(self, x: Tensor) -> Tensor:
            return self.base(x) + self.up(self.down(x))

    net, x = (
        nn.Sequential(Adapted(), nn.GELU(), nn.Linear(6, 7)).double(),
        torch.randn(5, 4).double(),
    )
    sym = ps.symmetries(net, x)
    assert sym.dim == 4
    assert ps.verify(sym, x).passed
