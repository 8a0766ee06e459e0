"""How many directions an action moves the parameters in."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from paramsym.action.protocol import Action
from paramsym.errors import ParamsymError
from paramsym.network.function import double
from paramsym.numerics import GENERATOR_TOLERANCE, Rank, Threshold, matrix_rank, normalised_rows


def orbit_dimension(
    sym: Action,
    params: Mapping[str, Tensor] | None = None,
    *,
    threshold: Threshold = GENERATOR_TOLERANCE,
) -> Rank:
    """The rank of the generators ξ_h(θ), h over a basis of the algebra, rows scaled to length 1.

    >>> import paramsym as ps, torch
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    >>> int(orbit_dimension(ps.symmetries(net, torch.ones(1, 2))))
    3
    """
    return matrix_rank(normalised_rows(sym.generators(_state_for(sym, params))), threshold)


def stabilizer_dimension(sym: Action, params: Mapping[str, Tensor] | None = None) -> int:
    """How many dimensions of the group leave θ where it is: dim G − orbit dimension.

    >>> import paramsym as ps, torch
    >>> net = torch.nn.Sequential(torch.nn.Linear(1, 2), torch.nn.Linear(2, 1))
    >>> stabilizer_dimension(ps.symmetries(net, torch.ones(1, 1)))
    1
    """
    state = _state_for(sym, params)
    return len(sym.generators(state)) - int(orbit_dimension(sym, state))


def _state_for(sym: Action, params: Mapping[str, Tensor] | None) -> dict[str, Tensor]:
    """The parameters asked for, or those of the symmetry's own model, in float64."""
    if params is None:
        model = getattr(sym, "model", None)
        if model is None:
            raise ParamsymError(
                "this action knows no model",
                where="orbit_dimension",
                remedy="pass params=, or bind it first: sym.bind(model)",
            )
        params = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    return {name: double(tensor) for name, tensor in params.items()}
