"""Strings that read as mathematics: superscripts, subscripts, brackets where needed."""

from __future__ import annotations

_SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_SUBSCRIPT = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def superscript(k: int) -> str:
    """10 becomes ¹⁰, and 1 is left out as in R¹ = R."""
    return "" if k == 1 else str(k).translate(_SUPERSCRIPT)


def subscript(k: int) -> str:
    """10 becomes ₁₀."""
    return str(k).translate(_SUBSCRIPT)


def bracketed(text: str) -> str:
    """Brackets around a formula that has an operator outside every bracket.

    >>> bracketed("R₊² ⋊ S₂"), bracketed("S(O(2) × O(3))")
    ('(R₊² ⋊ S₂)', 'S(O(2) × O(3))')
    """
    depth = 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == " " and depth == 0:
            return f"({text})"
    return text
