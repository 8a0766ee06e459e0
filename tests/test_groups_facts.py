"""Names, dimensions, orders, sampling and data of groups, against counting by hand."""

from __future__ import annotations

import json
import math

import pytest
import torch

from paramsym.errors import GroupError
from paramsym.groups import (
    Affine,
    Centred,
    Diagonal,
    GeneralLinear,
    Group,
    Monomial,
    Orthogonal,
    Permutation,
    PositiveMonomial,
    PositiveScaling,
    Product,
    Repeated,
    SignedPermutation,
    Signs,
    Special,
    SpecialLinear,
    SpecialOrthogonal,
    Translation,
    Trivial,
    Wreath,
)
from paramsym.testing import check_group
from zoo import groups as zoo

F64 = torch.float64

# group, its name, its dimension, its number of components
FACTS = [
    (Trivial(7), "1", 0, 1),
    (Permutation(10), "S₁₀", 0, 3628800),
    (Signs(8), "{±1}⁸", 0, 256),
    (SignedPermutation(8), "{±1}⁸ ⋊ S₈", 0, 256 * 40320),
    (PositiveScaling(1), "R₊", 1, 1),
    (PositiveMonomial(10), "R₊¹⁰ ⋊ S₁₀", 10, 3628800),
    (Monomial(5), "(R∖0)⁵ ⋊ S₅", 5, 32 * 120),
    (Diagonal(5), "(R∖0)⁵", 5, 32),
    (GeneralLinear(64), "GL(64)", 4096, 2),
    (SpecialLinear(64), "SL(64)", 4095, 1),
    (Orthogonal(512), "O(512)", 512 * 511 // 2, 2),
    (Centred(6), "O(6)₁", 10, 2),
    (SpecialOrthogonal(3), "SO(3)", 3, 1),
    (Special(GeneralLinear(3), up_to_sign=True), "SL±(3)", 8, 2),
    (Special(Permutation(5)), "A₅", 0, 60),
    (Special(Signs(4)), "S({±1}⁴)", 0, 8),
    (Special(Product((Orthogonal(2), Orthogonal(3)))), "S(O(2) × O(3))", 4, 2),
    (Translation(6), "R⁶", 6, 1),
    (Affine(6), "Aff(6)", 42, 2),
    (Affine(3, SignedPermutation(3)), "({±1}³ ⋊ S₃) ⋉ R³", 3, 48),
    (Wreath(GeneralLinear(4), 3), "GL(4) ≀ S₃", 48, 8 * 6),
    (Wreath(PositiveMonomial(2), 3), "(R₊² ⋊ S₂) ≀ S₃", 6, 8 * 6),
    (Repeated(GeneralLinear(4), 9), "GL(4) ⊗ 1₉", 16, 2),
    (Product((GeneralLinear(2), Monomial(2))), "GL(2) × ((R∖0)² ⋊ S₂)", 6, 2 * 8),
]


@pytest.mark.parametrize(("group", "name", "dim", "order"), FACTS, ids=lambda x: str(x)[:20])
def test_name_dimension_and_order(group: Group, name: str, dim: int, order: int) -> None:
    assert (str(group), group.dim, group.order) == (name, dim, order)
    assert group.log10_order == pytest.approx(math.log10(order))


@pytest.mark.parametrize("family", [Permutation, SignedPermutation, PositiveMonomial, Monomial])
def test_wide_groups_count_and_act_without_matrices(family: type[Group]) -> None:
    group = family(10_000)
    assert 35_659 < group.log10_order < 35_659 + 1 + 10_000 * math.log10(2)
    g, h = (group.sample(seed=seed) for seed in (0, 1))
    z = torch.randn(10_000, generator=torch.Generator().manual_seed(2), dtype=F64)
    moved = group.apply(group.compose(g, h), z)
    assert torch.allclose(moved, group.apply(g, group.apply(h, z)))
    assert torch.allclose(group.apply(group.inverse(g), group.apply(g, z)), z)
    assert not torch.allclose(moved, z)


def test_permutations_read_from_their_index() -> None:
    group = Permutation(3)
    p, q = torch.tensor([1, 2, 0]), torch.tensor([0, 2, 1])
    z = torch.tensor([10.0, 20.0, 30.0], dtype=F64)
    assert group.apply(p, z).tolist() == [20, 30, 10]
    assert group.compose(p, q).tolist() == q[p].tolist()
    assert torch.equal(group.matrix(p) @ z, z[p])


def test_affine_maps_are_homogeneous_matrices() -> None:
    group = Affine(2)
    g = (torch.tensor([[2.0, 0.0], [0.0, 3.0]]), torch.tensor([5.0, 7.0]))
    assert group.matrix(g).tolist() == [[2, 0, 5], [0, 3, 7], [0, 0, 1]]
    assert group.apply(g, torch.tensor([1.0, 1.0])).tolist() == [7, 10]
    assert group.algebra().shape == (6, 3, 3)


def test_wreath_elements_permute_blocks_and_repeated_ones_act_on_each_copy() -> None:
    blocks = torch.stack([2 * torch.eye(2), 3 * torch.eye(2)])
    swapped = Wreath(GeneralLinear(2), 2).apply((blocks, torch.tensor([1, 0])), torch.arange(4.0))
    assert swapped.tolist() == [4, 6, 0, 3]
    g = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    assert Repeated(GeneralLinear(2), 2).apply(g, torch.arange(4.0)).tolist() == [2, 3, 0, 1]


@pytest.mark.parametrize("group", [*zoo.ON_R4, *zoo.NESTED], ids=str)
def test_exp_is_the_matrix_exponential_of_the_algebra(group: Group) -> None:
    c = 0.4 * torch.randn(3, group.dim, generator=torch.Generator().manual_seed(0), dtype=F64)
    dense = torch.linalg.matrix_exp(torch.einsum("bd,dij->bij", c, group.algebra()))
    assert torch.allclose(group.matrix(group.exp(c)), dense, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("group", [*zoo.ON_R4, *zoo.NESTED], ids=str)
def test_exp_has_reverse_and_forward_derivatives_away_from_zero(group: Group) -> None:
    if group.dim:
        c = 0.4 * torch.randn(group.dim, generator=torch.Generator().manual_seed(0), dtype=F64)

        def matrix(c: torch.Tensor) -> torch.Tensor:
            return group.matrix(group.exp(c))

        forward, reverse = torch.func.jacfwd(matrix)(c), torch.func.jacrev(matrix)(c)
        assert torch.allclose(forward, reverse, atol=1e-10)
        step = torch.zeros_like(c)
        step[0] = 1e-6
        difference = (matrix(c + step) - matrix(c - step)) / 2e-6
        assert torch.allclose(forward[..., 0], difference, atol=1e-8)


@pytest.mark.parametrize("group", [*zoo.ON_R4, *zoo.NESTED], ids=str)
def test_sampling_is_reproducible_batched_and_scaled(group: Group) -> None:
    def matrix(**how: object) -> torch.Tensor:
        return group.matrix(group.sample(**{"seed": 3, "shape": (2, 5)} | how))

    size = group.n + group.affine
    assert matrix().shape == (2, 5, size, size)
    assert torch.equal(matrix(), matrix())
    assert torch.equal(matrix(), matrix(seed=None, generator=torch.Generator().manual_seed(3)))
    unit = torch.eye(size, dtype=F64).expand(2, 5, size, size)
    assert torch.equal(matrix(scale=0.0, discrete=False), unit)
    if group.dim or group.order > 1:
        assert not torch.equal(matrix(), matrix(seed=4))


def test_continuous_parts_have_gaussian_coefficients_of_the_given_scale() -> None:
    logarithms = PositiveScaling(3).sample(seed=0, scale=0.2, shape=(4000,)).log()
    assert logarithms.std().item() == pytest.approx(0.2, rel=0.05)
    assert logarithms.mean().item() == pytest.approx(0, abs=0.01)


@pytest.mark.parametrize(
    "group",
    [Permutation(3), Signs(3), Special(Permutation(4)), Special(SignedPermutation(2)),
     Orthogonal(3), Wreath(Orthogonal(2), 2), Special(Product((Orthogonal(2), Permutation(3))))],
    ids=str,
)  # fmt: skip
def test_discrete_parts_are_uniform(group: Group) -> None:
    draws = 400 * group.order
    matrices = group.matrix(group.sample(seed=0, scale=0.0, shape=(draws,)))
    _, counts = matrices.unique(dim=0, return_counts=True)
    assert len(counts) == group.order
    chi_square = ((counts - 400.0) ** 2 / 400).sum().item()
    assert chi_square < group.order + 5 * math.sqrt(2 * group.order)


@pytest.mark.parametrize("group", zoo.ON_R4, ids=str)
def test_elements_keep_single_precision(group: Group) -> None:
    g = group.sample(seed=0, shape=(3,), dtype=torch.float32, scale=0.3)
    z = torch.ones(3, 4)
    image = group.apply(group.compose(g, group.inverse(g)), z)
    assert image.dtype == torch.float32
    assert torch.allclose(image, z, atol=1e-4)


@pytest.mark.parametrize("group", zoo.ALL, ids=str)
def test_a_group_is_data(group: Group) -> None:
    assert Group.from_dict(json.loads(json.dumps(group.to_dict()))) == group


def test_structural_equality_tells_families_and_sizes_apart() -> None:
    names = {str(group) for group in zoo.ON_R4}
    assert len(set(zoo.ON_R4)) == len(zoo.ON_R4) == len(names)
    assert Permutation(3) != Permutation(4)
    assert Affine(3) == Affine(3, GeneralLinear(3))


def test_nonsense_is_refused_with_a_remedy() -> None:
    with pytest.raises(GroupError, match="positive integer n"):
        Permutation(0)
    with pytest.raises(GroupError, match="positive integer k"):
        Wreath(Signs(2), 0)
    with pytest.raises(GroupError, match="no groups"):
        Product(())
    with pytest.raises(GroupError, match="seed"):
        Signs(2).sample()
    with pytest.raises(GroupError, match="linear part"):
        Affine(3, Signs(2))
    with pytest.raises(GroupError, match="linear part"):
        Affine(3, Translation(3))
    with pytest.raises(GroupError, match="Monster"):
        Group.from_dict({"group": "Monster", "n": 196883})
    with pytest.raises(GroupError, match="shape"):
        Signs(2).is_member(torch.eye(5))
    with pytest.raises(GroupError, match="negative determinant"):
        Translation(2).flip(torch.tensor(True))


def test_membership_of_scaled_samples_is_refused() -> None:
    for group in (Orthogonal(3), SpecialLinear(3), Signs(3), Permutation(3)):
        g = group.matrix(group.sample(seed=0))
        assert group.is_member(g)
        assert not group.is_member(1.001 * g)
    check_group(SpecialLinear(3))
