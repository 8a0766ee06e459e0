"""Ranks, null spaces and every tolerance of the package: the one place for numerical judgement."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import total_ordering
from typing import Any, Literal

import torch
from torch import Tensor

from paramsym.errors import ParamsymError, ShapeError

Threshold = Literal["float64", "float32", "gap"] | float

EPS64 = torch.finfo(torch.float64).eps
EPS32 = torch.finfo(torch.float32).eps

# A symmetry may change outputs by this much, relative to the largest entry of each output.
VERIFY_TOLERANCE = 1e-9
# An element that moves no parameter by more than this, relative to the parameter, tested nothing.
MOVED_TOLERANCE = 1e-6
# A tangent vector v is flat when |Jv| is below this share of |J||v|.
FLAT_TOLERANCE = 1e-9
# Rows of a Jacobian taken sample by sample are the model's own when a random combination of them
# differs from its derivative by less than this, relative to the longest column.
SAMPLES_TOLERANCE = 1e-12
# Normalised generators with singular values below this share of the largest are dependent: they are
# exact up to rounding, so the cut can be far above it whatever their number.
GENERATOR_TOLERANCE = 1e-10
# Rows of generators shorter than this share of the longest one are rounding errors of zero rows.
ZERO_ROW = 1e-13
# Random relative perturbation of the parameters that must change the outputs of a model.
PERTURBATION = 0.1
# Halvings of the scale at which an element of a local group is sampled before a check gives up.
LOCAL_HALVINGS = 12

# What a probe of an activation calls equal, relative to the function near the point ...
PROBE_TOLERANCE = 1e-12
# ... or relative to its size around |z| = 1, where its own rounding errors come from.
PROBE_FLOOR = 1e-14
# Numerical switches of this relative size (softplus is exactly linear past its threshold, 1e-10
# away from its formula) count as the function they stand for in reflections and smoothness.
SWITCH_TOLERANCE = 1e-9
# Residual of an interpolation that has converged, relative to the variation over its interval.
SMOOTH_TOLERANCE = 1e-11
# Slopes at zero below this share of the function's size around |z| = 1 are zero.
SLOPE_TOLERANCE = 1e-6
# A degree of homogeneity is a fraction with a denominator up to this.
LARGEST_DENOMINATOR = 1000

# Entries of a dense Jacobian beyond which it is refused (2 GiB in float64).
LARGEST_DENSE = 2**28


@total_ordering
@dataclass(frozen=True, eq=False)
class Rank:
    """An integer with its evidence: the spectrum, the cut through it, and how wide the cut is.

    `value` singular values exceed `tolerance`; `gap` is the last kept one over the first dropped
    one, infinite where nothing was dropped. Compares, hashes and adds as the integer.

    >>> rank = matrix_rank(torch.tensor([[1.0, 0.0], [0.0, 1e-20]]))
    >>> rank == 1, 5 - rank, rank.gap > 1e19
    (True, 4, True)
    """

    value: int
    spectrum: Tensor
    tolerance: float
    gap: float

    def __int__(self) -> int:
        return self.value

    __index__ = __int__

    def __bool__(self) -> bool:
        return self.value != 0

    def __hash__(self) -> int:
        return hash(self.value)

    def __eq__(self, other: object) -> bool:
        return self.value == int(other) if isinstance(other, (int, Rank)) else NotImplemented

    def __lt__(self, other: int | Rank) -> bool:
        return self.value < int(other) if isinstance(other, (int, Rank)) else NotImplemented

    def __add__(self, other: int | Rank) -> int:
        return self.value + int(other) if isinstance(other, (int, Rank)) else NotImplemented

    def __sub__(self, other: int | Rank) -> int:
        return self.value - int(other) if isinstance(other, (int, Rank)) else NotImplemented

    def __rsub__(self, other: int) -> int:
        return other - self.value if isinstance(other, int) else NotImplemented

    __radd__ = __add__

    def __str__(self) -> str:
        return f"{self.value} (of {len(self.spectrum)} singular values, gap {self.gap:.1e})"

    __repr__ = __str__

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; an infinite gap becomes None, which JSON can write."""
        return {
            "value": self.value,
            "spectrum": self.spectrum.tolist(),
            "tolerance": self.tolerance,
            "gap": self.gap if math.isfinite(self.gap) else None,
        }


def matrix_rank(matrix: Tensor, threshold: Threshold = "float64") -> Rank:
    """The number of singular values above a threshold, computed in float64 and never from a Gram.

    "float64" and "float32" cut at max(shape) · σ_max · eps, a float t at t · σ_max, and "gap" at
    the widest ratio of neighbours above the float64 cut.

    >>> int(matrix_rank(torch.ones(3, 2)))
    1
    """
    dense = as_matrix(matrix)
    return rank_of_spectrum(torch.linalg.svdvals(dense), dense.shape, threshold)


def null_space(matrix: Tensor, threshold: Threshold = "float64") -> tuple[Tensor, Rank]:
    """Orthonormal rows v with matrix · v = 0, and the rank they were separated by.

    >>> basis, rank = null_space(torch.tensor([[1.0, 1.0]]))
    >>> basis.shape, int(rank), bool((basis.sum() ** 2 < 1e-30).all())
    (torch.Size([1, 2]), 1, True)
    """
    dense = as_matrix(matrix)
    if not dense.numel():
        return torch.eye(dense.shape[1], dtype=torch.float64, device=dense.device), Rank(
            0, dense.new_zeros(0), 0.0, math.inf
        )
    wide = dense.shape[0] < dense.shape[1]
    # A tall matrix has the singular values and rows of its triangular factor.
    small = dense if wide else torch.linalg.qr(dense, mode="r").R
    _, spectrum, rows = torch.linalg.svd(small, full_matrices=wide)
    rank = rank_of_spectrum(spectrum, dense.shape, threshold)
    return rows[rank.value :], rank


def rank_of_spectrum(
    spectrum: Tensor, shape: Sequence[int], threshold: Threshold = "float64"
) -> Rank:
    """Where to cut descending singular values of a matrix of this shape."""
    if not spectrum.numel() or not float(spectrum[0]):
        return Rank(0, spectrum, 0.0, math.inf)
    largest, floor = float(spectrum[0]), max(shape) * float(spectrum[0]) * EPS64
    if threshold == "gap":
        tolerance = _widest_gap(spectrum, floor)
    elif threshold == "float64":
        tolerance = floor
    elif threshold == "float32":
        tolerance = max(shape) * largest * EPS32
    elif isinstance(threshold, (int, float)) and 0 <= threshold < 1:
        tolerance = threshold * largest
    else:
        raise ParamsymError(
            f"threshold {threshold!r} is not a way to cut a spectrum",
            remedy='use "float64", "float32", "gap" or a share of the largest singular value',
        )
    value = int((spectrum > tolerance).sum())
    dropped = float(spectrum[value]) if value < spectrum.numel() else 0.0
    gap = float(spectrum[value - 1]) / dropped if dropped else math.inf
    return Rank(value, spectrum, tolerance, gap)


def _widest_gap(spectrum: Tensor, floor: float) -> float:
    """The geometric middle of the widest ratio of neighbours, everything below the floor as one."""
    values = torch.cat([spectrum, spectrum.new_zeros(1)]).clamp_min(floor)
    cut = int((values[:-1] / values[1:]).argmax())
    return math.sqrt(float(values[cut]) * float(values[cut + 1]))


def normalised_rows(matrix: Tensor) -> Tensor:
    """Rows scaled to length one, those that are zero up to rounding to zero.

    The rank of generators must not depend on the scales of the weights they move.
    """
    dense = as_matrix(matrix)
    if not dense.numel():
        return dense
    length = dense.norm(dim=1, keepdim=True)
    real = length > ZERO_ROW * length.max()
    return torch.where(real, dense / length.clamp_min(torch.finfo(torch.float64).tiny), 0.0)


def relative_error(actual: Tensor, expected: Tensor) -> float:
    """max |actual − expected| / max |expected|; infinite where values stop being finite.

    Where `expected` is zero throughout, any difference is infinitely large.

    >>> relative_error(torch.tensor([1.0, 2.5]), torch.tensor([1.0, 2.0]))
    0.25
    """
    if actual.shape != expected.shape:
        raise ShapeError(
            f"shapes {tuple(actual.shape)} and {tuple(expected.shape)} do not compare",
            remedy="compare tensors of one shape",
        )
    difference = largest_entry(actual.to(torch.float64) - expected.to(torch.float64))
    if difference == 0.0:
        return 0.0
    scale = largest_entry(expected)
    return difference / scale if scale and math.isfinite(difference) else math.inf


def largest_entry(tensor: Tensor) -> float:
    """max |entry|, 0 for an empty tensor, infinite when any entry is not finite."""
    if not tensor.numel():
        return 0.0
    low, high = torch.aminmax(tensor.detach())  # without a copy, which |entries| would be
    largest = max(float(high), -float(low))
    return largest if math.isfinite(largest) else math.inf


def as_matrix(matrix: Tensor) -> Tensor:
    """The same matrix in float64, or an error saying why it has no rank."""
    if matrix.dim() != 2:
        raise ShapeError(
            f"a rank needs a matrix, not a tensor of shape {tuple(matrix.shape)}",
            remedy="flatten all but one axis",
        )
    if matrix.is_complex():
        raise ShapeError(
            "the rank of a complex matrix is not defined here",
            remedy="stack real and imaginary parts",
        )
    dense = matrix.detach().to(torch.float64)
    if not bool(torch.isfinite(dense).all()):
        raise ParamsymError(
            "the matrix holds NaN or infinite entries, so it has no rank",
            remedy="check weights and inputs for NaN and overflow",
        )
    return dense
