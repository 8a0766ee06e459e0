"""What a tensor's axis is made of, and which axes carry the same group element.

An axis is a tree. A *leaf* stands for one index set, on which one element of one group acts. A
*product* is a row-major pair of index sets (heads times width, channels times pixels), a *sum* a
partition of the axis into index sets that move on their own (concatenated branches).

The index sets of all tensors are merged by ``Factors``, a union-find whose links carry what turns
the element of one axis into the element of the other: the dual, and the gains in between,

    T_a = D T_b^(+-T) D^-1,        D = diag(gain_1^e1 gain_2^e2 ...).

A class that meets itself through its own dual holds orthogonal matrices; one that meets itself
through a gain, or through an operation that works entry by entry, holds permutations.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import NamedTuple


class Gain(NamedTuple):
    """A vector of the model that scales entry by entry: ``name``, or ``sqrt(name + eps)``."""

    name: str
    eps: float | None = None


Frame = frozenset[tuple[Gain, int]]
Ranges = tuple[int, ...]
PLAIN: Frame = frozenset()


class Kind(IntEnum):
    """The matrices that may act on an index set, most of them in a chain.

    ``CENTRED`` are the rotations that fix the vector of ones, permutations among them; ``PLANE``
    those of a pair of entries without reflections, which only the last two contain. Scalars are
    left out (they live in the linear system of scales), so ``LINEAR`` is SL(n).
    """

    FIXED = 0
    PERMUTATION = 1
    PLANE = 2
    CENTRED = 3
    ORTHOGONAL = 4
    LINEAR = 5

    def meet(self, other: Kind) -> Kind:
        """The matrices that are of both kinds."""
        low, high = sorted((self, other))
        apart = Kind.PLANE in (low, high) and low > Kind.FIXED and high < Kind.ORTHOGONAL
        return Kind.FIXED if apart and low != high else low


def frame_plus(a: Frame, b: Frame, factor: int = 1) -> Frame:
    """The product of two diagonal frames, the second to the power ``factor``."""
    powers = dict(a)
    for gain, power in b:
        powers[gain] = powers.get(gain, 0) + factor * power
    return frozenset((gain, power) for gain, power in powers.items() if power)


def ordered(frame: Frame) -> list[tuple[Gain, int]]:
    """The gains of a frame, always in the same order."""
    return sorted(frame, key=lambda item: (item[0].name, item[0].eps or 0.0))


@dataclass(frozen=True)
class Leaf:
    """One index set on an axis: the factor that acts there (None: nothing does) and how.

    ``what`` tells the leaves without a factor apart: "fixed" entries of unknown value, "uniform"
    ones that are all equal, "zero" ones. ``slot`` names the index in linear forms, ``axis`` the
    axis of the tensor that the leaf is on, where that is known.
    """

    size: int
    slot: int
    factor: int | None = None
    turn: int = 1
    frame: Frame = PLAIN
    what: str = "fixed"
    axis: int = 0


@dataclass(frozen=True)
class Product:
    """Index sets side by side in row-major order."""

    children: tuple[Tree, ...]

    @property
    def size(self) -> int:
        size = 1
        for child in self.children:
            size *= child.size
        return size


@dataclass(frozen=True)
class Sum:
    """A partition of the axis: child ``k`` occupies the positions ``places[k]``, in order."""

    children: tuple[Tree, ...]
    places: tuple[Ranges, ...]

    @property
    def size(self) -> int:
        return sum(child.size for child in self.children)


Tree = Leaf | Product | Sum


class Mismatch(Exception):
    """Two axes whose index sets cannot be brought to a common refinement."""


class Link(NamedTuple):
    """How a factor is seen from the root of its class."""

    root: int
    turn: int
    frame: Frame


@dataclass
class _Factor:
    size: int
    kind: Kind
    bases: set[frozenset[int]]
    reason: str
    origin: str
    parent: Link | None = None
    parts: Tree | None = None
    members: int = 1


def product(children: Iterable[Tree]) -> Tree:
    """A product without nested products or trivial factors."""
    flat: list[Tree] = []
    for child in children:
        flat.extend(child.children if isinstance(child, Product) else [child])
    kept = [c for c in flat if c.size != 1] or flat[:1]
    return kept[0] if len(kept) == 1 else Product(tuple(kept))


def direct_sum(children: Iterable[Tree]) -> Tree:
    """The concatenation of axes, without nested sums or empty ones."""
    parts: list[Tree] = []
    places: list[Ranges] = []
    start = 0
    for child in children:
        if child.size:
            inner = child if isinstance(child, Sum) else Sum((child,), (tuple(range(child.size)),))
            parts.extend(inner.children)
            places.extend(tuple(start + i for i in place) for place in inner.places)
            start += child.size
    return parts[0] if len(parts) == 1 else Sum(tuple(parts), tuple(places))


def is_uniform(tree: Tree) -> bool:
    """Whether a tensor is constant along an axis."""
    return isinstance(tree, Leaf) and tree.factor is None and tree.what == "uniform"


def is_split(tree: Tree) -> bool:
    """Whether an axis has parts that move on their own."""
    if isinstance(tree, Product):
        return any(is_split(child) for child in tree.children)
    return isinstance(tree, Sum)


def leaves(tree: Tree) -> Iterator[Leaf]:
    """Every leaf of a tree, left to right."""
    if isinstance(tree, Leaf):
        yield tree
    else:
        for child in tree.children:
            yield from leaves(child)


def branches(tree: Tree) -> list[tuple[Leaf, ...]]:
    """The pure products that a tree is the sum of, each a tuple of leaves."""
    if isinstance(tree, Leaf):
        return [(tree,)]
    if isinstance(tree, Sum):
        return [branch for child in tree.children for branch in branches(child)]
    parts = [branches(child) for child in tree.children]
    return [tuple(itertools.chain(*choice)) for choice in itertools.product(*parts)]


def partition(tree: Tree) -> list[Ranges]:
    """The places of every pure product that an axis is the sum of.

    >>> two = Sum((Leaf(1, 0), Leaf(2, 1)), ((0,), (1, 2)))
    >>> partition(Product((Leaf(2, 2), two)))
    [(0, 3), (1, 2, 4, 5)]
    """
    if isinstance(tree, Leaf):
        return [tuple(range(tree.size))]
    if isinstance(tree, Sum):
        pairs = zip(tree.children, tree.places, strict=True)
        return [tuple(at[i] for i in part) for child, at in pairs for part in partition(child)]
    found: list[Ranges] = [(0,)]
    for child in tree.children:
        inner = partition(child)
        found = [tuple(i * child.size + j for i in a for j in b) for a in found for b in inner]
    return found


def picked(a: Tree, b: Tree) -> Tree:
    """Of two aligned axes the one that moves: special leaves give way to factors."""
    if isinstance(a, Leaf) and a.factor is None:
        if isinstance(b, Leaf) and b.factor is None:
            return a if a.what == "fixed" else b
        return b
    if isinstance(a, Leaf) or isinstance(b, Leaf):
        return a
    if type(a) is type(b) and [c.size for c in a.children] == [c.size for c in b.children]:
        same_places = not isinstance(a, Sum) or (isinstance(b, Sum) and a.places == b.places)
        if same_places:
            children = tuple(picked(x, y) for x, y in zip(a.children, b.children, strict=True))
            return replace(a, children=children)
    return a


class Factors:
    """All index sets of a model, merged into classes; ``version`` counts what has changed.

    A single entry cut out of an index set needs no class of its own, since nothing acts on it but
    scales; with ``name_singles`` it gets one all the same, so that it can be told from others.
    """

    def __init__(self, *, name_singles: bool = False) -> None:
        self._all: list[_Factor] = []
        self._slots = itertools.count()
        self._name_singles = name_singles
        self.version = 0
        self._based: tuple[int, dict[int, frozenset[int]]] = (0, {})

    # making -------------------------------------------------------------------------------------

    def slot(self) -> int:
        """A fresh name for an index."""
        return next(self._slots)

    def special(self, size: int, what: str) -> Leaf:
        """An index set on which nothing acts."""
        return Leaf(size, self.slot(), None, what=what)

    def new(self, size: int, origin: str, kind: Kind = Kind.LINEAR) -> int:
        """A new index set, on which at most ``kind`` acts."""
        reason = "no operation restricts it"
        self._all.append(_Factor(size, kind, set(), reason, origin))
        return len(self._all) - 1

    def leaf(self, factor: int, turn: int = 1, frame: Frame = PLAIN) -> Leaf:
        """A leaf with a fresh slot for a factor."""
        return Leaf(self._all[factor].size, self.slot(), factor, turn, frame)

    # reading ------------------------------------------------------------------------------------

    def find(self, factor: int) -> Link:
        """The root of a factor's class, and the turn and frame that lead to it."""
        parent = self._all[factor].parent
        if parent is None:
            return Link(factor, 1, PLAIN)
        if self._all[parent.root].parent is None:
            return parent
        root, turn, frame = self.find(parent.root)
        link = Link(root, parent.turn * turn, frame_plus(parent.frame, frame, parent.turn))
        self._all[factor].parent = link
        return link

    def root(self, leaf: Leaf) -> int | None:
        """The class that acts on a leaf."""
        return None if leaf.factor is None else self.find(leaf.factor).root

    def kind(self, leaf: Leaf) -> Kind:
        """What acts on a leaf."""
        root = self.root(leaf)
        return Kind.FIXED if root is None else self._all[root].kind

    def seen(self, leaf: Leaf) -> tuple[int, Frame]:
        """Turn and frame of a leaf relative to its class."""
        assert leaf.factor is not None
        _, turn, frame = self.find(leaf.factor)
        return leaf.turn * turn, frame_plus(leaf.frame, frame, leaf.turn)

    def get(self, root: int) -> _Factor:
        """The record of a class."""
        return self._all[root]

    def base(self, root: int) -> frozenset[int]:
        """The classes over which a class is fibred: its element depends on their index.

        Every tensor that the class occurs in allows the index sets that it has; what all of them
        have is left. The intersection is taken when asked for, since index sets that are found to
        be the same later count as one; nothing changes it as long as ``version`` stays.
        """
        version, known = self._based
        if version != self.version:
            known = {}
            self._based = (self.version, known)
        if root not in known:
            known[root] = self._allowed(root)
        return known[root]

    def _allowed(self, root: int) -> frozenset[int]:
        if self._all[root].kind == Kind.FIXED:
            return frozenset()
        allowed = [frozenset().union(*map(self._atoms, c)) for c in self._all[root].bases]
        return frozenset.intersection(*allowed) - {root} if allowed else frozenset()

    def roots(self) -> list[int]:
        """Every class that has not been split."""
        return [i for i, f in enumerate(self._all) if f.parent is None and f.parts is None]

    def _atoms(self, factor: int) -> set[int]:
        """The classes that a base index consists of; none where it was split into a sum."""
        root = self.find(factor).root
        parts = self._all[root].parts
        if parts is None:
            return {root}
        if isinstance(parts, Sum):
            return set()
        atoms: set[int] = set()
        for part in leaves(parts):
            if part.factor is not None:
                atoms |= self._atoms(part.factor)
        return atoms

    def resolve(self, tree: Tree) -> Tree:
        """The tree with every split factor replaced by its parts."""
        if isinstance(tree, Product):
            return product(self.resolve(c) for c in tree.children)
        if isinstance(tree, Sum):
            return self._flat_sum([self.resolve(c) for c in tree.children], tree.places)
        if tree.factor is None:
            return tree
        root, turn, frame = self.find(tree.factor)
        parts = self._all[root].parts
        if parts is None:
            return tree
        if frame_plus(tree.frame, frame, tree.turn):
            # a gain is a vector over the whole index set, and none over a part of it
            for leaf in leaves(parts):
                self.lower(leaf, Kind.PERMUTATION, "a gain scales an axis that is cut")
        return self.resolve(self._seen_through(parts, tree.turn * turn))

    def _seen_through(self, parts: Tree, turn: int) -> Tree:
        if isinstance(parts, Leaf) and parts.factor is None:
            return replace(parts, slot=self.slot())
        if isinstance(parts, Leaf):
            return replace(parts, slot=self.slot(), turn=parts.turn * turn)
        children = tuple(self._seen_through(c, turn) for c in parts.children)
        return replace(parts, children=children)

    def _flat_sum(self, children: list[Tree], places: tuple[Ranges, ...]) -> Tree:
        parts: list[Tree] = []
        where: list[Ranges] = []
        for child, place in zip(children, places, strict=True):
            if isinstance(child, Sum):
                parts.extend(child.children)
                where.extend(tuple(place[i] for i in inner) for inner in child.places)
            else:
                parts.append(child)
                where.append(place)
        return Sum(tuple(parts), tuple(where))

    # restricting --------------------------------------------------------------------------------

    def lower(self, leaf: Leaf, kind: Kind, reason: str) -> None:
        """Allow at most ``kind`` on a leaf, and remember why."""
        if leaf.factor is not None:
            allowed = self._framed(leaf, kind)
            self._meet(self.find(leaf.factor).root, allowed, reason)

    def _framed(self, leaf: Leaf, kind: Kind) -> Kind:
        """What a kind comes down to on a leaf that is seen through gains.

        Rotations of the leaf are rotations of its class only where the class has the same frame;
        as long as nothing is known of a class, its frame is ours to choose.
        """
        (turn, frame), root = self.seen(leaf), self.root(leaf)
        if root is None or not frame or kind in (Kind.LINEAR, Kind.PERMUTATION):
            return kind
        if self._all[root].kind == Kind.LINEAR:
            self._reframe(root, frame_plus(PLAIN, frame, turn))
            return kind
        return Kind.FIXED if kind == Kind.PLANE else min(kind, Kind.PERMUTATION)

    def _reframe(self, root: int, frame: Frame) -> None:
        """Describe a class by ``frame T frame^-1`` in place of T."""
        record = self._all[root]
        new = self.new(record.size, record.origin)
        self._link(root, new, 1, frame_plus(PLAIN, frame, -1), record.reason)
        self._all[new].reason = record.reason

    def _meet(self, root: int, kind: Kind, reason: str) -> None:
        record = self._all[root]
        lower = record.kind.meet(kind)
        if lower != record.kind:
            record.kind, record.reason = lower, reason
            self.version += 1

    def lower_tree(self, tree: Tree, kind: Kind, reason: str) -> None:
        """Allow at most ``kind`` on every leaf of a tree."""
        for leaf in leaves(self.resolve(tree)):
            self.lower(leaf, kind, reason)

    def within(self, factor: int, present: frozenset[int]) -> None:
        """Let a class be fibred over the given factors at most."""
        bases = self._all[self.find(factor).root].bases
        if present not in bases:
            bases.add(present)
            self.version += 1

    def same(self, a: Leaf, b: Leaf, reason: str, *, dual: bool = False) -> None:
        """Impose ``T_a = T_b`` on two leaves, or with ``dual`` ``T_a = T_b^-T``."""
        if a.factor is None or b.factor is None:
            for leaf in (a, b):
                self.lower(leaf, Kind.FIXED, reason)
            return
        (ra, ta, fa), (rb, tb, fb) = self.find(a.factor), self.find(b.factor)
        sign = -1 if dual else 1
        turn_a, turn_b = a.turn * ta, b.turn * tb * sign
        frame_a = frame_plus(a.frame, fa, a.turn)
        seen_b = frame_plus(b.frame, fb, b.turn)
        frame_b = frame_plus(PLAIN, seen_b, sign)
        gap = frame_plus(frame_b, frame_a, -1)
        if ra != rb:
            self._link(ra, rb, turn_a * turn_b, frame_plus(PLAIN, gap, turn_a), reason)
        elif turn_a == turn_b:
            self._meet(ra, Kind.PERMUTATION if gap else Kind.LINEAR, reason)
        else:
            self._self_dual(ra, frame_plus(PLAIN, gap, turn_a), reason)

    def _self_dual(self, root: int, gap: Frame, reason: str) -> None:
        """Impose ``T = gap T^-T gap^-1``: rotations, in the frame that is half the gap."""
        half = frozenset((gain, -power // 2) for gain, power in gap)
        even = all(power % 2 == 0 for _, power in gap)
        if not gap:
            self._meet(root, Kind.ORTHOGONAL, reason)
        elif even and self._all[root].kind == Kind.LINEAR:
            self._reframe(root, half)
            self._meet(self.find(root).root, Kind.ORTHOGONAL, reason)
        else:
            self._meet(root, Kind.PERMUTATION, reason)

    def share(self, a: Leaf, b: Leaf, reason: str) -> None:
        """Let two leaves be indexed alike: one permutation moves both, nothing more."""
        self.lower(a, Kind.PERMUTATION, reason)
        self.lower(b, Kind.PERMUTATION, reason)
        self.same(a, b, reason)

    def _link(self, child: int, parent: int, turn: int, frame: Frame, reason: str) -> None:
        """Hang one class below another: ``T_child = frame T_parent^turn frame^-1``.

        Rotations are so in one frame: what has none yet hangs below what has.
        """
        c, p = self._all[child], self._all[parent]
        if frame and c.kind < Kind.LINEAR:
            if p.kind == Kind.LINEAR:
                self._link(parent, child, turn, frame_plus(PLAIN, frame, -turn), reason)
                return
            self._meet(parent, Kind.PERMUTATION, reason)
        self._meet(parent, c.kind, c.reason)
        c.parent = Link(parent, turn, frame)
        p.members += c.members
        p.bases |= c.bases
        self.version += 1

    # splitting ----------------------------------------------------------------------------------

    def split_product(self, leaf: Leaf, sizes: tuple[int, ...]) -> None:
        """Cut an index set into a row-major product; each part may be fibred over the others."""
        root = self._splittable(leaf)
        whole = self._all[root]
        parts = [self.new(size, whole.origin, whole.kind) for size in sizes]
        for part in parts:
            self._all[part].bases = {frozenset(parts) | base for base in whole.bases}
            self._all[part].reason = whole.reason
        self._finish(root, Product(tuple(self.leaf(part) for part in parts)))

    def split_sum(self, leaf: Leaf, places: tuple[Ranges, ...]) -> None:
        """Cut an index set into parts that move on their own; a single entry only has a scale."""
        root = self._splittable(leaf)
        whole = self._all[root]
        parts: list[Tree] = []
        for place in places:
            if len(place) == 1 and not self._name_singles:
                parts.append(self.special(1, "uniform"))
                continue
            part = self.new(len(place), whole.origin, whole.kind if len(place) > 1 else Kind.FIXED)
            self._all[part].bases = set(whole.bases)
            self._all[part].reason = whole.reason
            parts.append(self.leaf(part))
        self._finish(root, Sum(tuple(parts), places))

    def _splittable(self, leaf: Leaf) -> int:
        root = self.root(leaf)
        assert root is not None
        return root

    def _finish(self, root: int, parts: Tree) -> None:
        self._all[root].parts = parts
        self.version += 1

    # aligning -----------------------------------------------------------------------------------

    def align(self, a: Tree, b: Tree) -> list[tuple[tuple[Leaf, ...], tuple[Leaf, ...]]]:
        """Refine two axes to a common structure and pair up their pure products.

        Raises ``Mismatch`` where no common refinement is representable.
        """
        while True:
            version = self.version
            a, b = self.resolve(a), self.resolve(b)
            pairs = self._pairs(a, b)
            if self.version == version:
                return pairs

    def _pairs(self, a: Tree, b: Tree) -> list[tuple[tuple[Leaf, ...], tuple[Leaf, ...]]]:
        if isinstance(a, Leaf):
            return [((a,), (b,))] if isinstance(b, Leaf) else self._leaf_against(a, b)
        if isinstance(b, Leaf):
            return [(y, x) for x, y in self._leaf_against(b, a)]
        if isinstance(a, Product) and isinstance(b, Product):
            return self._products(a, b)
        if isinstance(a, Sum) and isinstance(b, Sum):
            return self._sums(a, b)
        if isinstance(a, Sum):
            return [(y, x) for x, y in self._pairs(b, a)]
        assert isinstance(b, Sum)
        return self._product_against_sum(a, b)

    def _leaf_against(
        self, a: Leaf, b: Product | Sum
    ) -> list[tuple[tuple[Leaf, ...], tuple[Leaf, ...]]]:
        if a.factor is None:
            return [
                (tuple(replace(a, size=x.size) for x in branch), branch) for branch in branches(b)
            ]
        if isinstance(b, Product):
            self.split_product(a, tuple(c.size for c in b.children))
        else:
            self.split_sum(a, b.places)
        return []

    def _products(self, a: Product, b: Product) -> list[tuple[tuple[Leaf, ...], tuple[Leaf, ...]]]:
        if [c.size for c in a.children] != [c.size for c in b.children]:
            version = self.version
            one, other = self._cut_like(a, b), self._cut_like(b, a)
            return self._pairs(one, other) if self.version == version else []
        parts = [self._pairs(x, y) for x, y in zip(a.children, b.children, strict=True)]
        return [
            (
                tuple(itertools.chain(*(p[0] for p in choice))),
                tuple(itertools.chain(*(p[1] for p in choice))),
            )
            for choice in itertools.product(*parts)
        ]

    def _cut_like(self, a: Product, b: Product) -> Tree:
        """A product with its children cut wherever the other one is cut."""
        inner = inner_cuts([c.size for c in a.children], [c.size for c in b.children])
        return product(
            self.cut(c, i) if len(i) > 1 else c for c, i in zip(a.children, inner, strict=True)
        )

    def _sums(self, a: Sum, b: Sum) -> list[tuple[tuple[Leaf, ...], tuple[Leaf, ...]]]:
        if a.places == b.places:
            pairs = []
            for x, y in zip(a.children, b.children, strict=True):
                pairs.extend(self._pairs(x, y))
            return pairs
        owner_b = {i: k for k, place in enumerate(b.places) for i in place}
        owner_a = {i: k for k, place in enumerate(a.places) for i in place}
        done = self._refine(a, owner_b) + self._refine(b, owner_a)
        if not done:
            # the same parts in another order of appearance
            order = [a.places.index(place) for place in b.places]
            return self._sums(Sum(tuple(a.children[k] for k in order), b.places), b)
        return []

    def _refine(self, tree: Sum, owner: Mapping[int, int]) -> int:
        """Split the children of a sum that lie in several parts of another sum."""
        done = 0
        for child, place in zip(tree.children, tree.places, strict=True):
            groups: dict[int, list[int]] = {}
            for position, i in enumerate(place):
                groups.setdefault(owner[i], []).append(position)
            if len(groups) > 1:
                self.partition(child, tuple(tuple(g) for g in groups.values()))
                done += 1
        return done

    def _product_against_sum(
        self, a: Product, b: Sum
    ) -> list[tuple[tuple[Leaf, ...], tuple[Leaf, ...]]]:
        """Heads times width against a concatenation of heads: split the leading index."""
        self.partition(a, b.places)
        rest = a.size // a.children[0].size
        for child in b.children:
            if not isinstance(child, Product) or child.size // child.children[0].size != rest:
                self.cut(child, (child.size // rest, rest))
        resolved = self.resolve(a)
        if isinstance(resolved, Sum):
            return self._sums(resolved, b)
        pairs_a = branches(resolved)
        pairs_b = branches(self.resolve(b))
        if [[x.size for x in p] for p in pairs_a] != [[x.size for x in p] for p in pairs_b]:
            raise Mismatch
        return list(zip(pairs_a, pairs_b, strict=True))

    def cut(self, tree: Tree, sizes: tuple[int, ...]) -> Tree:
        """Write an axis as a row-major product of the given sizes, splitting what must be split."""
        tree = self.resolve(tree)
        sizes = tuple(s for s in sizes if s != 1) or (1,)
        if len(sizes) == 1:
            return tree
        if isinstance(tree, Leaf):
            if tree.factor is None:
                return Product(tuple(replace(tree, size=s) for s in sizes))
            self.split_product(tree, sizes)
            return self.resolve(tree)
        if isinstance(tree, Product):
            inner = inner_cuts([c.size for c in tree.children], list(sizes))
            parts = [
                self.cut(child, ratios) if len(ratios) > 1 else child
                for child, ratios in zip(tree.children, inner, strict=True)
            ]
            return self.resolve(product(parts))
        return self._cut_sum(tree, sizes)

    def _cut_sum(self, tree: Sum, sizes: tuple[int, ...]) -> Tree:
        """A concatenation of blocks of equal inner size is (a concatenation of indices) × inner."""
        rest = 1
        for size in sizes[1:]:
            rest *= size
        heads: list[Tree] = []
        places: list[Ranges] = []
        inner: Tree | None = None
        for child, place in zip(tree.children, tree.places, strict=True):
            outer = tuple(i // rest for i in place[::rest])
            if child.size % rest or place != tuple(
                o * rest + r for o in outer for r in range(rest)
            ):
                raise Mismatch
            parts = self.cut(child, (child.size // rest, rest)) if child.size != rest else child
            head, tail = _detach(parts, rest)
            heads.append(head if head is not None else self.special(1, "fixed"))
            places.append(outer)
            if inner is None:
                inner = tail
                continue
            for xs, ys in self.align(inner, tail):
                for x, y in zip(xs, ys, strict=True):
                    if (x.factor is None) != (y.factor is None):
                        raise Mismatch
                    self.same(x, y, "blocks viewed as one index share their inner index")
        assert inner is not None
        return product([Sum(tuple(heads), tuple(places)), self.cut(inner, sizes[1:])])

    def partition(self, tree: Tree, places: tuple[Ranges, ...]) -> None:
        """Split an axis into the given parts; each must be a union of rows of what is below."""
        tree = self.resolve(tree)
        if isinstance(tree, Leaf):
            if tree.factor is None:
                raise Mismatch
            self.split_sum(tree, places)
            return
        if isinstance(tree, Product):
            rest = tree.size // tree.children[0].size
            heads = []
            for place in places:
                outer = tuple(i // rest for i in place[::rest])
                if place != tuple(o * rest + r for o in outer for r in range(rest)):
                    raise Mismatch
                heads.append(outer)
            if not isinstance(tree.children[0], Leaf):
                raise Mismatch
            self.partition(tree.children[0], tuple(heads))
            return
        raise Mismatch


def _detach(tree: Tree, rest: int) -> tuple[Tree | None, Tree]:
    """Split a product into what leads and a tail of size ``rest``."""
    if tree.size == rest:
        return None, tree
    if not isinstance(tree, Product):
        raise Mismatch
    size = 1
    for k in range(len(tree.children) - 1, 0, -1):
        size *= tree.children[k].size
        if size == rest:
            return product(tree.children[:k]), product(tree.children[k:])
    raise Mismatch


def inner_cuts(sizes: list[int], others: list[int]) -> list[tuple[int, ...]]:
    """Two row-major products of one total: how the children of the first must be cut.

    >>> inner_cuts([6, 2], [3, 4])
    [(3, 2), (2,)]
    """
    strides = _strides(sizes)
    cuts = sorted({*strides, *_strides(others)}, reverse=True)
    return [
        _ratios([c for c in cuts if low <= c <= high]) for high, low in itertools.pairwise(strides)
    ]


def _strides(sizes: list[int]) -> list[int]:
    """The strides at which a row-major product can be cut, both ends included, descending."""
    return list(itertools.accumulate(reversed(sizes), operator.mul, initial=1))[::-1]


def _ratios(cuts: list[int]) -> tuple[int, ...]:
    if any(high % low for high, low in itertools.pairwise(cuts)):
        raise Mismatch
    return tuple(high // low for high, low in itertools.pairwise(cuts))
