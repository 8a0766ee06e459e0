"""Operations that leave the numbers as they are, and noise, which does in eval mode."""

from __future__ import annotations

from paramsym.network.tracing.forms.registry import FORMS, Event, Form, Result, form


@form(
    "alias.default",
    "clone.default",
    "contiguous.default",
    "detach.default",
    "lift.default",
    "lift_fresh.default",
    "lift_fresh_copy.default",
    "positive.default",
    "requires_grad.default",
    "resolve_conj.default",
    "resolve_neg.default",
)
def identity(e: Event) -> Result:
    """The same numbers."""
    return e.same()


@form(
    "to.dtype",
    "to.device",
    "to.dtype_layout",
    "to.other",
    "type_as.default",
    "_to_copy.default",
    "_autocast_to_reduced_precision.default",
    "_autocast_to_full_precision.default",
)
def cast(e: Event) -> Result:
    """Rounding is left out: between floating types the numbers stand for the same reals."""
    before, after = e.tape.dtype(e.args[0]), e.out.dtype
    if before == after or (before and before.is_floating_point and after.is_floating_point):
        return e.same()
    return e.tape.emit("aten._to_copy.default", (e.args[0],), e.out.shape, after, {"dtype": after})


def _noise(name: str) -> Form:
    def noise(e: Event) -> Result:
        """(x, probability, train): nothing happens outside train mode."""
        return e.emit(name, *e.args) if e.args[2] and e.args[1] > 0 else e.same()

    return noise


for _name in ("dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout"):
    FORMS[f"aten.{_name}.default"] = _noise(f"{_name}.default")


@form("rrelu.default")
def rrelu(e: Event) -> Result:
    """A random slope in train mode, the mean slope otherwise."""
    x, lower, upper, train = e.args[:4]
    return e.plain() if train else e.emit("leaky_relu.default", x, (lower + upper) / 2)
