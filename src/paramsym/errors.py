"""Every error the package raises on purpose: what is wrong, where, and what to do next."""

from __future__ import annotations


class ParamsymError(Exception):
    """Base of all errors raised on purpose; catching it catches nothing else.

    >>> raise ParamsymError("empty model", where="net", remedy="give it a parameter")
    Traceback (most recent call last):
    ...
    paramsym.errors.ParamsymError: empty model (at net); give it a parameter
    """

    def __init__(self, what: str, *, where: str = "", remedy: str = "") -> None:
        self.what, self.where, self.remedy = what, where, remedy
        place = f" (at {where})" if where else ""
        advice = f"; {remedy}" if remedy else ""
        super().__init__(f"{what}{place}{advice}")


class TraceError(ParamsymError):
    """The model could not be turned into a graph."""


class ShapeError(ParamsymError):
    """A tensor has the wrong shape, dtype or device."""


class GroupError(ParamsymError):
    """An element, an algebra or a combination of groups does not make sense."""


class VerificationError(ParamsymError):
    """A check could not be carried out, or would have shown nothing."""


class ClaimError(ParamsymError):
    """A paper's claim is unknown, or its run is not usable."""
