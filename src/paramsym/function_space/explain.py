"""The ledger of a model: every flat direction, and which symmetry it belongs to."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from paramsym.action.protocol import Action
from paramsym.errors import ShapeError
from paramsym.function_space.jacobian import jacobian_of
from paramsym.function_space.shares import parameter_shares, shares_table
from paramsym.network.function import ModelFunction
from paramsym.network.table import PAGE, wrapped
from paramsym.numerics import (
    FLAT_TOLERANCE,
    GENERATOR_TOLERANCE,
    Rank,
    Threshold,
    matrix_rank,
    normalised_rows,
    null_space,
)

# Where the text of a printed line starts, after its count.
INDENT = 6


@dataclass(frozen=True)
class Line:
    """One line of the ledger: how many flat directions one kind of motion of one space explains.

    Discrete motions (a permutation, signs) are listed with none. `group` is all that acts on the
    space, and `reason` why it is no more; both are empty for an action that has no spaces.
    """

    space: str
    kind: str
    group: str
    directions: int
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return dict(vars(self))


@dataclass(frozen=True, eq=False)
class Explanation:
    """Measured flat directions against the generators of a symmetry.

    `nullity` = dim ker J, `explained` = rank of the generators inside it, `completeness` their
    ratio, and `leftover` an orthonormal basis (rows) of what remains of the kernel. `lines` divide
    `explained` among spaces and kinds of motion: a direction that several of them share counts for
    the first. `unsound` names generators that move the function.
    """

    nullity: int
    explained: int
    leftover: Tensor
    lines: tuple[Line, ...]
    unsound: tuple[str, ...]
    rank: Rank
    shapes: dict[str, tuple[int, ...]]

    @property
    def completeness(self) -> float:
        """explained / nullity, 1 when there is nothing to explain."""
        return self.explained / self.nullity if self.nullity else 1.0

    @property
    def sound(self) -> bool:
        """Does every generator leave the function alone to first order?"""
        return not self.unsound

    @property
    def by_space(self) -> dict[str, int]:
        """Directions by space; the values add up to `explained`."""
        return _added((line.space, line.directions) for line in self.lines)

    @property
    def by_kind(self) -> dict[str, int]:
        """Directions by kind of motion; the values add up to `explained`."""
        return _added((line.kind, line.directions) for line in self.lines)

    @property
    def leftover_shares(self) -> dict[str, float]:
        """How much of the leftover lies in each parameter, the largest first; they sum to 1.

        With P the projector onto the leftover, ‖P restricted to the parameter‖² / ‖P‖².
        """
        shares = parameter_shares(self.leftover, self.shapes)
        return dict(sorted(shares.items(), key=lambda item: -item[1]))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {
            "nullity": self.nullity,
            "explained": self.explained,
            "completeness": self.completeness,
            "lines": [line.to_dict() for line in self.lines],
            "by_space": self.by_space,
            "by_kind": self.by_kind,
            "unsound": list(self.unsound),
            "rank": self.rank.to_dict(),
            "leftover": self.leftover.tolist(),
            "leftover_shares": self.leftover_shares,
        }

    def __str__(self) -> str:
        text = [
            f"{self.explained} of {self.nullity} flat directions explained, completeness "
            f"{self.completeness:.3f} (rank {int(self.rank)}, gap {self.rank.gap:.1e})"
        ]
        for space, lines in itertools.groupby(self.lines, key=lambda line: line.space):
            text += ["", *_stanza(space, list(lines))]
        if self.by_kind:
            kinds = ", ".join(f"{kind}({count})" for kind, count in self.by_kind.items())
            text += ["", *wrapped(f"by kind: {kinds}", PAGE)]
        if len(self.leftover):
            text += ["", f"unexplained: {len(self.leftover)}, in"]
            text += shares_table(self.leftover_shares)
        for label in self.unsound:
            text += wrapped(f"NOT a symmetry: {label} moves the function", PAGE)
        return "\n".join(text)


def _stanza(space: str, lines: Sequence[Line]) -> Iterator[str]:
    """A space with its directions and its group; under it the kinds of motion and the reason."""
    group, reason = lines[0].group, lines[0].reason
    title = f"{space}: {group}" if group else space
    kinds = ", ".join(f"{line.kind}({line.directions})" for line in lines)
    count = f"{sum(line.directions for line in lines):>{INDENT - 2}}  "
    texts = [title, f"{kinds}, since {reason}" if reason else kinds]
    rows = [row for text in texts for row in wrapped(text, PAGE - INDENT)]
    yield from (f"{' ' * INDENT if k else count}{row}" for k, row in enumerate(rows))


def explain(
    model: nn.Module,
    x: Any,
    params: Mapping[str, Tensor] | None = None,
    sym: Action | None = None,
    *,
    outputs: Sequence[int] | None = None,
    threshold: Threshold = "float64",
    seed: int = 0,
) -> Explanation:
    """Which flat directions of a model on these inputs its symmetries explain.

    `sym` is any action with generators and labels, by default what `ps.symmetries` derives. The
    kernel is measured on `x`: pass many generic inputs. `outputs` selects by position the floating
    outputs that matter, by default those that `sym` preserves.

    >>> net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    >>> explain(net, torch.randn(20, 2)).completeness
    1.0
    """
    if sym is None:
        from paramsym.network.derive import symmetries

        sym = symmetries(model, x, outputs=outputs, seed=seed)
    selected = getattr(sym, "outputs", None) if outputs is None else outputs
    function = ModelFunction.of(model, x, params, seed=seed, selected=selected)
    generators = sym.generators(dict(function.state)).detach().to(torch.float64)
    columns = sum(p.numel() for p in function.parameters.values())
    if generators.dim() != 2 or generators.shape[1] != columns:
        raise ShapeError(
            f"generators of shape {tuple(generators.shape)} do not run over {columns} parameters",
            where="explain",
            remedy="pass a symmetry of this model",
        )
    labels = list(getattr(sym, "labels", ())) or [f"generator {i}" for i in range(len(generators))]
    return _ledger(function, generators, labels, sym, threshold)


def _ledger(
    function: ModelFunction,
    generators: Tensor,
    labels: Sequence[str],
    sym: Action,
    threshold: Threshold,
) -> Explanation:
    matrix = jacobian_of(function)
    kernel, rank = null_space(matrix, threshold)
    rows = normalised_rows(generators)
    steepest = float(rank.spectrum[0]) if rank.spectrum.numel() else 0.0
    flat = (rows @ matrix.T).norm(dim=1) <= FLAT_TOLERANCE * steepest
    unsound = tuple(label for label, fine in zip(labels, flat.tolist(), strict=True) if not fine)
    named = [label for label, fine in zip(labels, flat.tolist(), strict=True) if fine]
    # Inside the kernel, where what rounding added outside of it does not count.
    inside = rows[flat] @ kernel.T
    missing, _ = null_space(inside, GENERATOR_TOLERANCE)
    return Explanation(
        nullity=len(kernel),
        explained=len(kernel) - len(missing),
        leftover=missing @ kernel,
        lines=tuple(_lines(_divided(inside, [place_of(label) for label in named]), sym)),
        unsound=unsound,
        rank=rank,
        shapes={name: tuple(p.shape) for name, p in function.parameters.items()},
    )


def _divided(rows: Tensor, keys: Sequence[Place]) -> dict[Place, int]:
    """What the rows of each key add to the rank of the rows of the keys before it."""
    counts: dict[Place, int] = {}
    taken: list[int] = []
    before = 0
    for key in dict.fromkeys(keys):
        taken += [i for i, other in enumerate(keys) if other == key]
        total = int(matrix_rank(rows[taken], GENERATOR_TOLERANCE))
        counts[key], before = total - before, total
    return counts


def _lines(counts: Mapping[Place, int], sym: Action) -> Iterator[Line]:
    """The counts with what the action says of its spaces, discrete motions among them."""
    spaces = {space.name: space for space in getattr(sym, "spaces", ())}
    factors = [Place(part.space, part.kind) for part in getattr(sym, "factors", ())]
    for place in dict.fromkeys([*factors, *counts]):
        space = spaces.get(place.space)
        group, reason = str(getattr(space, "group", "")), str(getattr(space, "reason", ""))
        yield Line(*place, group, counts.get(place, 0), reason)


def _added(pairs: Iterable[tuple[str, int]]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for key, count in pairs:
        counts[key] = counts.get(key, 0) + count
    return counts


class Place(NamedTuple):
    """A space and a kind of motion."""

    space: str
    kind: str


def place_of(label: str) -> Place:
    """The space and the kind of motion that a generator's label names.

    >>> place_of("layers.0: scale of unit 3")
    Place(space='layers.0', kind='scale')
    >>> place_of("generator 7")
    Place(space='generator 7', kind='generator 7')
    """
    space, _, motion = label.rpartition(": ")
    return Place(space or label, motion.partition(" of ")[0])
