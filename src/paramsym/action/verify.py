"""The float64 proof of an action: it moves the weights, and the function stays where it is.

Whole elements are tried, then every independent factor alone, each against a negative control: the
same motion spoilt in one parameter must change the function. A failing element is taken apart until
the factors to blame are alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from paramsym.action.protocol import Action, Separable
from paramsym.errors import VerificationError
from paramsym.network.function import ModelFunction
from paramsym.numerics import (
    LOCAL_HALVINGS,
    MOVED_TOLERANCE,
    PERTURBATION,
    VERIFY_TOLERANCE,
    largest_entry,
    relative_error,
)

WHOLE = "whole elements"


@dataclass(frozen=True)
class Row:
    """One line of the proof: how much the function and the weights changed.

    `error` is relative to the outputs, `moved` to the parameters. `control` is the change of the
    function under a spoilt motion, None where the motion cannot be spoilt. Where `exactness` is
    "loss", the error is that of the logarithms of the softmax of the outputs; where it is "eps", it
    is the size of what an epsilon breaks, and no failure.
    """

    label: str
    error: float
    moved: float
    control: float | None = None
    exactness: str = "exact"


@dataclass(frozen=True)
class Culprit:
    """Factors that change the function, alone or only together, and what allowed them."""

    labels: tuple[str, ...]
    error: float
    reason: str
    operations: tuple[str, ...]

    def __str__(self) -> str:
        by = f" by {', '.join(self.operations)}" if self.operations else ""
        why = f" ({self.reason})" if self.reason else ""
        return f"{' with '.join(self.labels)}: error {self.error:.1e}, allowed{by}{why}"


@dataclass(frozen=True)
class Verification:
    """What sampled elements did to the function, in float64.

    `passed` when every error stays below `tolerance`; `remainder` is the error of what is left of
    the elements once the culprits are taken out, None when there are none.
    """

    passed: bool
    max_error: float
    worst_space: str
    table: tuple[Row, ...]
    culprits: tuple[Culprit, ...]
    remainder: float | None
    trials: int
    scale: float
    tolerance: float
    note: str = ""

    def __bool__(self) -> bool:
        return self.passed

    @property
    def controls(self) -> dict[str, float]:
        """The change that a spoilt motion of each factor makes, where it can be spoilt."""
        return {row.label: row.control for row in self.table if row.control is not None}

    @property
    def uncontrolled(self) -> tuple[str, ...]:
        """Factors whose spoilt motion changes nothing either: parameters that do not matter."""
        return tuple(name for name, change in self.controls.items() if change <= self.tolerance)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; what is infinite becomes None."""
        data = asdict(self) | {"uncontrolled": list(self.uncontrolled)}
        plain: dict[str, Any] = _finite(data)
        return plain

    def __str__(self) -> str:
        verdict = "passed" if self.passed else "FAILED"
        trials = f"{self.trials} elements of scale {self.scale:g}"
        lines = [f"{verdict}: largest error {self.max_error:.1e} over {trials}"]
        width = max((len(row.label) for row in self.table), default=0)
        if self.table:
            lines.append(f"  {'':<{width}}  {'error':>8}  {'moved':>8}  {'control':>8}")
        lines += [f"  {row.label:<{width}}  {_cells(row)}" for row in self.table]
        lines += [f"not a symmetry: {culprit}" for culprit in self.culprits]
        if self.remainder is not None:
            lines.append(f"without them the error is {self.remainder:.1e}")
        return "\n".join([*lines, *filter(None, [self.note])])


def verify(
    sym: Action,
    x: Any = None,
    trials: int = 8,
    seed: int = 0,
    *,
    scale: float = 0.1,
    model: nn.Module | None = None,
    params: Mapping[str, Tensor] | None = None,
) -> Verification:
    """Try `trials` elements of an action on a float64 copy of its model, whole and by factors.

    `model` and `x` default to those the action was derived from. A check that could show nothing
    (no outputs, outputs that ignore the parameters, elements that move nothing) is refused.

    >>> import paramsym as ps
    >>> net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    >>> verify(ps.symmetries(net, torch.randn(4, 2))).passed
    True
    """
    return _Proof(sym, x, seed, scale, model, params).run(trials)


@dataclass(frozen=True)
class _Trial:
    """An element and what it did; the state it led to is as large as the model, and not kept."""

    g: Any
    error: float
    moved: float


class _Proof:
    """One verification under way."""

    def __init__(
        self,
        action: Action,
        x: Any,
        seed: int,
        scale: float,
        model: nn.Module | None,
        params: Mapping[str, Tensor] | None,
    ) -> None:
        self.action, self.seed, self.scale = action, seed, scale
        selected = getattr(action, "outputs", None)
        self.function = ModelFunction.of(
            _own(action, "model", model),
            _own(action, "x", x),
            params,
            seed=seed,
            selected=selected,
        )
        self.expected = self._expected()

    def run(self, trials: int) -> Verification:
        """Whole elements, every factor alone, and who is to blame."""
        if trials < 1:
            raise VerificationError("no trials were asked for", remedy="pass trials=1 or more")
        if _trivial(self.action):
            return self._verdict((), trials, note="the group is trivial: there is nothing to check")
        wholes = [self._sampled(self.seed + i) for i in range(trials)]
        moving = [trial for trial in wholes if trial.moved > MOVED_TOLERANCE]
        if not moving:
            raise VerificationError(
                f"none of {trials} sampled elements moved a parameter",
                where="verify",
                remedy="raise scale= or trials=, or check the action",
            )
        worst = max(moving, key=lambda trial: trial.error)
        whole = Row(WHOLE, worst.error, worst.moved, self._control(moving[0]))
        return self._verdict((whole, *self._factors(wholes)), trials, worst)

    def _verdict(
        self, rows: tuple[Row, ...], trials: int, worst: _Trial | None = None, note: str = ""
    ) -> Verification:
        judged = [row for row in rows if row.exactness != "eps"]
        failed = [row for row in judged if row.error > VERIFY_TOLERANCE]
        culprits, remainder = self._blame(tuple(judged), worst) if failed and worst else ((), None)
        factors = judged[1:] or judged
        return Verification(
            passed=not failed,
            max_error=max((row.error for row in judged), default=0.0),
            worst_space=max(factors, key=lambda row: row.error).label if factors else "",
            table=rows,
            culprits=culprits,
            remainder=remainder,
            trials=trials,
            scale=self.scale,
            tolerance=VERIFY_TOLERANCE,
            note=note,
        )

    def _factors(self, wholes: Sequence[_Trial]) -> Iterator[Row]:
        """A row per factor, of the first sampled element that moves something in it."""
        if not isinstance(self.action, Separable):
            return
        drawn = [self._drawn(self.seed + i, self.scale) for i in range(len(wholes))]
        for label in self.action.parts(drawn[0]):
            trials = (self._tried(self._kept(g, [label])) for g in drawn)
            seen = [next(trials)]
            while seen[-1].moved <= MOVED_TOLERANCE and len(seen) < len(wholes):
                seen.append(next(trials))
            trial, exactness = seen[-1], self._exactness(label)
            error = trial.error
            if exactness == "loss":
                error = self._error(self._state_after(trial.g), logarithms=True)
            judged = exactness not in ("eps", "loss") and trial.moved > MOVED_TOLERANCE
            control = self._control(trial) if judged else None
            yield Row(label, error, trial.moved, control, exactness)

    def _sampled(self, seed: int) -> _Trial:
        """An element of the scale asked for; of a local group, one small enough to stay in it."""
        scale, trial = self.scale, self._tried(self._exact(self._drawn(seed, self.scale)))
        if getattr(self.action, "local", False):
            for _ in range(LOCAL_HALVINGS):
                if trial.error <= VERIFY_TOLERANCE:
                    break
                scale /= 2
                trial = self._tried(self._exact(self._drawn(seed, scale)))
            self.scale = min(self.scale, scale)
        return trial

    def _drawn(self, seed: int, scale: float) -> Any:
        return self.action.sample(seed=seed, scale=scale)

    def _exactness(self, label: str) -> str:
        labels: Mapping[str, str] = getattr(self.action, "exactness", {})
        return labels.get(label, "exact")

    def _exact(self, g: Any) -> Any:
        """The element without the factors that are no symmetries of the function."""
        labels: Mapping[str, str] = getattr(self.action, "exactness", {})
        kept = [label for label, what in labels.items() if what not in ("eps", "loss")]
        return g if len(kept) == len(labels) else self._kept(g, list(dict.fromkeys(kept)))

    def _tried(self, g: Any) -> _Trial:
        state = self._state_after(g)
        moved = max(_moved(self.function.state[name], state[name]) for name in self.function.names)
        return _Trial(g, self._error(state), moved)

    def _state_after(self, g: Any) -> dict[str, Tensor]:
        return self.action.act(g, dict(self.function.state), x=self.function.x)

    def _error(self, state: Mapping[str, Tensor], *, logarithms: bool = False) -> float:
        with torch.no_grad():
            outputs = self.function.outputs(state)
        if [y.shape for y in outputs] != [y.shape for y in self.expected]:
            return math.inf
        pairs = list(zip(outputs, self.expected, strict=True))
        if logarithms:
            pairs = [(y.log_softmax(-1), e.log_softmax(-1)) for y, e in pairs]
        return max(relative_error(y, e) for y, e in pairs)

    def _kept(self, g: Any, labels: Sequence[str]) -> Any:
        assert isinstance(self.action, Separable)
        return self.action.only(g, labels)

    def _control(self, trial: _Trial) -> float | None:
        """The change of the function under the same motion, spoilt in one parameter.

        First one parameter stays behind; then, for motions of a single parameter, it goes as far in
        a random direction. Stops at the first spoilt motion that the check would have caught.
        """
        start, state = self.function.state, self._state_after(trial.g)
        names = self.function.names
        moved = [n for n in names if _moved(start[n], state[n]) > MOVED_TOLERANCE]
        largest: float | None = None
        for spoil in (self._left_behind, self._astray):
            # a tensor that moves alone is left behind by not moving at all: that shows nothing
            for name in moved if spoil == self._astray or len(moved) > 1 else ():
                spoilt = {**state, **self._everywhere(name, spoil(name, state[name]))}
                largest = max(largest or 0.0, self._error(spoilt))
                if largest > VERIFY_TOLERANCE:
                    return largest
        return largest

    def _left_behind(self, name: str, moved: Tensor) -> Tensor:
        return self.function.state[name]

    def _astray(self, name: str, moved: Tensor) -> Tensor:
        start = self.function.state[name]
        generator = torch.Generator().manual_seed(self.seed)
        noise = torch.randn(start.shape, generator=generator, dtype=start.dtype).to(start.device)
        astray: Tensor = start + (moved - start).norm() / noise.norm() * noise
        return astray

    def _everywhere(self, name: str, value: Tensor) -> dict[str, Tensor]:
        """A value under every name of a tied tensor."""
        names = self.function.aliases(name)
        return dict.fromkeys(names, value)

    def _blame(
        self, rows: tuple[Row, ...], worst: _Trial
    ) -> tuple[tuple[Culprit, ...], float | None]:
        """The factors that fail, alone or only together, and the error without them."""
        if not isinstance(self.action, Separable):
            return (self._culprit((WHOLE,), worst.error),), None
        alone = [row for row in rows[1:] if row.error > VERIFY_TOLERANCE]
        found = [self._culprit((row.label,), row.error) for row in alone]
        rest = [row.label for row in rows[1:] if row not in alone]
        while (remainder := self._remainder(worst.g, rest)) > VERIFY_TOLERANCE:
            together = self._bisect(worst.g, rest)
            error = self._remainder(worst.g, together)
            found.append(self._culprit(tuple(together), error))
            rest = [label for label in rest if label not in together]
        return tuple(found), remainder

    def _bisect(self, g: Any, labels: list[str]) -> list[str]:
        """A small set of factors that fails, out of a set that does."""

        def fails(some: list[str]) -> bool:
            return self._remainder(g, some) > VERIFY_TOLERANCE

        return _shrink(labels, fails)

    def _remainder(self, g: Any, labels: Sequence[str]) -> float:
        return self._tried(self._kept(g, labels)).error

    def _culprit(self, labels: tuple[str, ...], error: float) -> Culprit:
        spaces = [space for label in labels if (space := self._space(label)) is not None]
        reasons = dict.fromkeys(str(getattr(space, "reason", "")) for space in spaces)
        nodes = [str(node) for space in spaces for node in getattr(space, "operations", ())]
        return Culprit(labels, error, "; ".join(filter(None, reasons)), tuple(dict.fromkeys(nodes)))

    def _space(self, label: str) -> Any | None:
        """The space whose name starts a label."""
        spaces = [
            space
            for space in getattr(self.action, "spaces", ())
            if label == space.name or label.startswith(f"{space.name}: ")
        ]
        return max(spaces, key=lambda space: len(space.name), default=None)

    def _expected(self) -> list[Tensor]:
        """The outputs to preserve, refused where preserving them would show nothing."""
        with torch.no_grad():
            outputs = self.function.outputs(self.function.state)
            spoilt = self.function.outputs(self._perturbed())
        if not sum(y.numel() for y in outputs):
            raise VerificationError(
                "there are no floating outputs to compare",
                where="verify",
                remedy="pass an input for which the model returns some",
            )
        for place, y in enumerate(outputs):
            if not math.isfinite(largest_entry(y)):
                raise VerificationError(
                    "holds NaN or infinite values",
                    where=f"output {place}",
                    remedy="check weights and inputs; mask what is meant to be infinite",
                )
        same = [y.shape for y in spoilt] == [y.shape for y in outputs]
        pairs = zip(spoilt, outputs, strict=False)
        if same and max(relative_error(s, y) for s, y in pairs) <= VERIFY_TOLERANCE:
            raise VerificationError(
                "the outputs do not depend on the parameters, so any motion preserves them",
                where="verify",
                remedy="pass an input on which the model's parameters matter",
            )
        return outputs

    def _perturbed(self) -> dict[str, Tensor]:
        generator = torch.Generator().manual_seed(self.seed)
        state = dict(self.function.state)
        for name, value in self.function.parameters.items():
            noise = torch.randn(value.shape, generator=generator, dtype=torch.float64)
            size = PERTURBATION * (largest_entry(value) or 1.0)
            state |= self._everywhere(name, value + size * noise.to(value.device))
        return state


def _shrink(items: list[str], fails: Callable[[list[str]], bool]) -> list[str]:
    """A subset that fails and, as far as halving shows, no half of which does (delta debugging)."""
    parts = 2
    while len(items) > 1:
        size = math.ceil(len(items) / parts)
        chunks = [items[i : i + size] for i in range(0, len(items), size)]
        rests = [[item for item in items if item not in chunk] for chunk in chunks]
        smaller = next((some for some in [*chunks, *rests] if some and fails(some)), None)
        if smaller is not None and len(smaller) < len(items):
            items, parts = smaller, max(parts - 1, 2) if smaller in rests else 2
        elif size == 1:
            return items
        else:
            parts = min(2 * parts, len(items))
    return items


def _moved(before: Tensor, after: Tensor) -> float:
    """How far a parameter went, relative to its size before or after."""
    difference = largest_entry(after - before)
    return difference / max(largest_entry(before), largest_entry(after)) if difference else 0.0


def _own(action: Action, name: str, given: Any) -> Any:
    value = getattr(action, name, None) if given is None else given
    if value is None:
        raise VerificationError(
            f"this action does not know its {name}",
            where="verify",
            remedy=f"pass {name}= (a symmetry from from_dict learns it with sym.bind(model))",
        )
    return value


def _trivial(action: Action) -> bool:
    """Does the action say that its only element is the identity?"""
    return getattr(action, "dim", None) == 0 and getattr(action, "log10_order", None) == 0


def _cells(row: Row) -> str:
    control = "-" if row.control is None else f"{row.control:.1e}"
    return f"{row.error:8.1e}  {row.moved:8.1e}  {control:>8}"


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
