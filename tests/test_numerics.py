"""Ranks carry their evidence, null spaces are null, and errors are relative."""

from __future__ import annotations

import json
import math

import pytest
import torch

from paramsym.errors import ParamsymError, ShapeError
from paramsym.numerics import (
    Rank,
    matrix_rank,
    normalised_rows,
    null_space,
    relative_error,
)


def low_rank(rows: int, columns: int, rank: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    left = torch.randn(rows, rank, generator=generator, dtype=torch.float64)
    return left @ torch.randn(rank, columns, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("shape", [(7, 4), (4, 7), (5, 5), (1, 3), (200, 30)])
def test_null_space_is_orthonormal_null_and_complementary(shape: tuple[int, int]) -> None:
    rows, columns = shape
    for rank in range(1, min(shape) + 1):
        matrix = low_rank(rows, columns, rank)
        basis, found = null_space(matrix)
        assert found == rank == matrix_rank(matrix)
        assert basis.shape == (columns - rank, columns)
        assert torch.allclose(basis @ basis.T, torch.eye(columns - rank, dtype=basis.dtype))
        assert float((matrix @ basis.T).norm()) < 1e-12 * float(matrix.norm())


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_empty_matrices_have_rank_zero(shape: tuple[int, int]) -> None:
    basis, rank = null_space(torch.zeros(shape))
    assert rank == 0
    assert basis.shape == (shape[1], shape[1])
    assert matrix_rank(torch.zeros(shape)) == 0


def test_zero_matrices_have_rank_zero() -> None:
    basis, rank = null_space(torch.zeros(2, 3))
    assert rank == 0 and rank.gap == math.inf
    assert basis.shape == (3, 3)


def test_thresholds_cut_where_they_say() -> None:
    matrix = torch.diag(torch.tensor([1.0, 1e-3, 1e-9, 1e-18], dtype=torch.float64))
    assert matrix_rank(matrix, "float64") == 3
    assert matrix_rank(matrix, "float32") == 2
    assert matrix_rank(matrix, 1e-2) == 1
    assert matrix_rank(matrix, 1e-8) == 2
    assert matrix_rank(matrix, "gap") == 3
    near = torch.diag(torch.tensor([1.0, 0.5, 1e-10, 5e-11], dtype=torch.float64))
    assert matrix_rank(near, "gap") == 2
    assert matrix_rank(near, "float64") == 4


def test_a_full_spectrum_has_no_gap_to_find() -> None:
    matrix = torch.diag(torch.tensor([4.0, 2.0, 1.0], dtype=torch.float64))
    rank = matrix_rank(matrix, "gap")
    assert rank == 3 and rank.gap == math.inf


def test_gap_is_last_kept_over_first_dropped() -> None:
    rank = matrix_rank(torch.diag(torch.tensor([1.0, 1e-4, 1e-20], dtype=torch.float64)))
    assert rank.gap == pytest.approx(1e16)
    assert rank.spectrum.tolist() == sorted(rank.spectrum.tolist(), reverse=True)


def test_a_rank_is_its_integer() -> None:
    rank = matrix_rank(torch.eye(3))
    assert isinstance(rank, Rank)
    assert rank == 3 and rank < 4 and rank >= 3 and rank != 2 and rank <= Rank(*vars(rank).values())
    assert 5 - rank == 2 and rank + 1 == 4 and 1 + rank == 4 and rank - 1 == 2
    assert list(range(5))[rank] == 3 and {rank: "a"}[3] == "a"
    assert json.loads(json.dumps(rank.to_dict())) == {
        "value": 3,
        "spectrum": [1.0, 1.0, 1.0],
        "tolerance": rank.tolerance,
        "gap": None,
    }


def test_single_precision_matrices_are_measured_in_double() -> None:
    matrix = low_rank(20, 10, 4).float()
    assert matrix_rank(matrix, "float32") == 4
    assert matrix_rank(matrix).spectrum.dtype == torch.float64


@pytest.mark.parametrize("entry", [math.nan, math.inf])
def test_what_is_not_finite_is_refused(entry: float) -> None:
    with pytest.raises(ParamsymError, match="NaN or infinite"):
        matrix_rank(torch.tensor([[1.0, entry]]))


def test_what_is_no_matrix_is_refused() -> None:
    with pytest.raises(ShapeError, match="needs a matrix"):
        matrix_rank(torch.ones(3))
    with pytest.raises(ShapeError, match="complex"):
        null_space(torch.ones(2, 2, dtype=torch.complex64))
    with pytest.raises(ParamsymError, match="threshold"):
        matrix_rank(torch.eye(2), "float16")
    with pytest.raises(ParamsymError, match="threshold"):
        matrix_rank(torch.eye(2), 3.0)


def test_row_scales_do_not_change_the_rank() -> None:
    rows = low_rank(4, 9, 4) * torch.tensor([[1.0], [1e-5], [1e5], [1.0]])
    assert matrix_rank(normalised_rows(rows * 1e-3)) == 4
    rows[1] *= 1e-20
    assert matrix_rank(normalised_rows(rows)) == 3
    assert normalised_rows(torch.zeros(0, 4)).shape == (0, 4)


def test_relative_error_is_scale_aware() -> None:
    expected = torch.tensor([1e6, 1.0], dtype=torch.float64)
    assert relative_error(expected * (1 + 1e-7), expected) == pytest.approx(1e-7)
    assert relative_error(expected * 1e-30, expected * 1e-30) == 0.0
    assert relative_error(torch.zeros(2), torch.zeros(2)) == 0.0
    assert relative_error(torch.ones(2), torch.zeros(2)) == math.inf
    assert relative_error(torch.tensor([math.nan]), torch.ones(1)) == math.inf
    assert relative_error(torch.zeros(0), torch.zeros(0)) == 0.0
    with pytest.raises(ShapeError):
        relative_error(torch.ones(2), torch.ones(3))
