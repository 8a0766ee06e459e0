"""Every group of the zoo, and random trees of groups, obey the laws that ship with the package."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paramsym.groups import Group
from paramsym.testing import GROUP_LAWS, check_group
from zoo import groups as zoo


@pytest.mark.parametrize("group", [*zoo.ON_R4, *zoo.ON_R6, *zoo.SMALL, *zoo.NESTED], ids=str)
def test_group_laws_hold(group: Group) -> None:
    report = check_group(group)
    assert report.passed
    assert len(report.errors) == len(GROUP_LAWS)


@given(st.data(), st.integers(1, 8), st.integers(0, 2**31))
def test_group_laws_hold_for_random_trees(data: st.DataObject, n: int, seed: int) -> None:
    group = zoo.random_group(n, lambda k: data.draw(st.integers(0, k - 1)), depth=3)
    check_group(group, seed=seed)
    check_group(group.canonical(), seed=seed)


def test_the_report_is_a_table_and_plain_data() -> None:
    report = check_group(zoo.ON_R4[0])
    assert "associativity" in str(report)
    assert report.to_dict()["errors"]["inverse"] == 0
