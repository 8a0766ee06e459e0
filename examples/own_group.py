"""A new family of groups: the symplectic ones, through the law suite."""

from dataclasses import dataclass

import torch
from torch import Tensor

from paramsym.groups import GeneralLinear, MatrixGroup
from paramsym.testing import check_group


@dataclass(frozen=True)
class Symplectic(MatrixGroup):
    """Matrices A of R²ᵏ with AᵀJA = J, where J = [[0, 1], [−1, 0]]."""

    n: int

    def __str__(self) -> str:
        return f"Sp({self.n})"

    @property
    def dim(self) -> int:
        """As many as symmetric matrices."""
        return self.n * (self.n + 1) // 2

    @property
    def form(self) -> Tensor:
        """J."""
        turn = torch.tensor([[0.0, 1.0], [-1.0, 0.0]], dtype=torch.float64)
        return torch.kron(turn, torch.eye(self.n // 2, dtype=torch.float64))

    def hat(self, coefficients: Tensor) -> Tensor:
        """J S for the symmetric S with these entries."""
        upper = torch.zeros(self.dim, self.n, self.n, dtype=torch.float64)
        upper[range(self.dim), *torch.triu_indices(self.n, self.n)] = 1
        basis = self.form @ (upper + upper.mT)
        return torch.einsum("...k,kij->...ij", coefficients, basis.to(coefficients.dtype))

    def has_linear(self, matrix: Tensor, tol: float) -> Tensor:
        """AᵀJA = J."""
        form = self.form.to(matrix.dtype)
        return (matrix.mT @ form @ matrix - form).abs().amax((-1, -2)) <= tol


print(check_group(Symplectic(4)))
print(Symplectic(4) <= GeneralLinear(4), Symplectic(4).dim)
assert not bool(Symplectic(4).is_member(2 * torch.eye(4, dtype=torch.float64)))
