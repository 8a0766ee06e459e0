"""The permutations of a symmetry as a specification in the style of git re-basin."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from paramsym.export.uses import Use, absorbed, indices, places
from paramsym.network.axes import Kind
from paramsym.network.symmetry import Symmetry

Label = str | tuple[str, ...] | None


@dataclass(frozen=True)
class Permutation:
    """One free permutation: how many units it has, and where they sit."""

    size: int
    uses: tuple[Use, ...]


@dataclass(frozen=True)
class PermutationSpec:
    """Which permutation acts on which axis of which tensor.

    `axes` has, for every tensor, a label per axis: None where nothing is permuted, several where
    several permutations act (heads, and the units in each). `omitted` says of what else is permuted
    why a list of axes cannot say it.
    """

    axes: dict[str, tuple[Label, ...]]
    permutations: dict[str, Permutation]
    omitted: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return asdict(self)


def permutation_spec(sym: Symmetry) -> PermutationSpec:
    """Every permutation of units that the group contains, one label each.

    A permutation π of a label moves every use of it: position blocks[i][j] of the axis gets what
    was at blocks[π(i)][j]. Uses are applied one after the other; so are labels, in any order.

    >>> import paramsym as ps, torch
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    >>> spec = permutation_spec(ps.symmetries(net, torch.ones(1, 2)))
    >>> spec.axes["0.weight"], spec.axes["2.weight"], spec.permutations["0"].size
    (('0', None), (None, '0'), 3)
    """
    found: dict[str, Permutation] = {}
    omitted: dict[str, str] = {}
    taken_back = absorbed(sym)
    for part in sym.factors:
        if part.where != "class" or sym.structure.classes[int(part.key)].kind == Kind.PLANE:
            continue
        c = int(part.key)
        record, name = sym.structure.classes[c], _free(part.space, [*found, *omitted])
        where = places(sym, c)
        if where is None:
            omitted[name] = "units on one axis are permuted by a rule that another axis chooses"
        elif (part.where, c) in taken_back:
            omitted[name] = "it moves a fixed vector, which a bias has to take back"
        else:
            gains = dict.fromkeys(gain.name for place in where for gain, _ in place.leaf.frame)
            for block in indices(sym, c):
                label = ".".join([name, *map(str, block)])
                uses = [place.use(block) for place in where]
                # Whoever permutes what a gain multiplies has to permute the gain.
                known = {use.parameter for use in uses}
                uses += [Use(gain, 0) for gain in gains if gain not in known]
                uses = [named for use in uses for named in _under_every_name(use, sym)]
                found[label] = Permutation(record.size, tuple(uses))
    shapes = {alias: shape for n, shape in sym.shapes.items() for alias in sym.aliases.get(n, (n,))}
    axes = {name: _labels(name, len(shape), found) for name, shape in shapes.items()}
    return PermutationSpec(axes, found, omitted)


def _under_every_name(use: Use, sym: Symmetry) -> list[Use]:
    """Tied tensors stand in a state dict under each of their names."""
    names = sym.aliases.get(use.parameter, (use.parameter,))
    return [replace(use, parameter=name) for name in names]


def _labels(name: str, rank: int, found: dict[str, Permutation]) -> tuple[Label, ...]:
    on: list[list[str]] = [[] for _ in range(rank)]
    for label, permutation in found.items():
        for use in permutation.uses:
            if use.parameter == name and label not in on[use.axis]:
                on[use.axis].append(label)
    return tuple(tuple(some) if len(some) > 1 else some[0] if some else None for some in on)


def _free(name: str, taken: list[str]) -> str:
    """A label that no permutation has, nor one of a family."""
    label, k = name, 1
    while any(other == label or other.startswith(f"{label}.") for other in taken):
        k += 1
        label = f"{name} ({k})"
    return label
