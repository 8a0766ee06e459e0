"""Random graphs: no crash, no false symmetry, and few that come out trivial.

PARAMSYM_FUZZ_SEED replays a run (the header of every run prints it), PARAMSYM_FUZZ_GRAPHS sets how
many graphs it tries. Seeds that fail are appended to tests/zoo/failing_seeds.txt and replayed by
every later run.
"""

from __future__ import annotations

import os
import traceback
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest
import torch

import paramsym as ps
from zoo import dense, laws
from zoo.fuzz import STEPS, Program, generate

COUNT = int(os.environ.get("PARAMSYM_FUZZ_GRAPHS", "500"))
CHUNKS = 20
UNKNOWN_EVERY = 12  # one graph in so many has an operation nobody knows
LAWS_EVERY = 5
REMEMBERED = 3  # failures of a chunk: where everything fails, more of them teach nothing
TRIVIAL_SHARE = 0.10
FAILING = Path(__file__).parent / "zoo" / "failing_seeds.txt"


@dataclass
class Outcome:
    """What one chunk of graphs gave."""

    failures: list[str] = field(default_factory=list)
    trivial: list[int] = field(default_factory=list)
    known: int = 0
    kinds: Counter[str] = field(default_factory=Counter)


def fuzzed(seed: int, unknown: bool, outcome: Outcome) -> None:
    """Derive one graph and try its symmetry on the eager module."""
    program = generate(seed, unknown)
    outcome.kinds += program.kinds
    model = program.build()
    sym = ps.symmetries(model, program.x())
    assert unknown or not sym.pinned, f"pinned: {sym.pinned}"
    if not unknown:
        outcome.known += 1
        if laws.trivial(sym):
            outcome.trivial.append(seed)
    if laws.trivial(sym):
        return
    state = dense.state_of(model)
    inputs = [program.x(), program.x(5, seed=1)]
    states = [sym.act(sym.sample(seed=seed + i, scale=0.15), state) for i in range(3)]
    assert _some_sample_moves(sym, state, seed), "no sample moves anything"
    for new in states:
        error = max(dense.change(model, x, new) for x in inputs)
        assert error < laws.EXACT, f"false symmetry: the function changes by {error:.1e}\n{sym}"
    if seed % LAWS_EVERY == 0:
        laws.check_action_laws(model, sym)
        verification = ps.verify(sym, trials=2)
        assert verification.passed, str(verification)


def _some_sample_moves(sym: ps.Symmetry, state: dict[str, torch.Tensor], seed: int) -> bool:
    """A few samples of a small discrete group may all be the identity; forty are not."""
    samples = (sym.sample(seed=seed + i, scale=0.15) for i in range(40))
    return any(dense.moved(state, sym.act(g, state)) > 1e-6 for g in samples)


def attempt(seed: int, unknown: bool, outcome: Outcome) -> None:
    """One graph; what goes wrong is written down with the code of the graph."""
    try:
        fuzzed(seed, unknown, outcome)
    except Exception:
        source = generate(seed, unknown).source
        outcome.failures.append(f"{source}\n{traceback.format_exc(limit=-4)}")
        if len(outcome.failures) <= REMEMBERED:
            _remember(seed, unknown)


def _remember(seed: int, unknown: bool) -> None:
    line = f"{seed} {'unknown' if unknown else 'known'}\n"
    if not FAILING.exists() or line not in FAILING.read_text().splitlines(keepends=True):
        with FAILING.open("a") as file:
            file.write(line)


def _remembered() -> list[tuple[int, bool]]:
    lines = FAILING.read_text().split("\n") if FAILING.exists() else []
    pairs = [line.split() for line in lines if line and not line.startswith("#")]
    return [(int(seed), kind == "unknown") for seed, kind in pairs]


@cache
def chunk(base: int, index: int) -> Outcome:
    """Every CHUNKS-th graph of the run."""
    outcome = Outcome()
    for i in range(index, COUNT, CHUNKS):
        attempt(1_000_000 * base + i, i % UNKNOWN_EVERY == UNKNOWN_EVERY - 1, outcome)
    return outcome


@pytest.mark.parametrize("index", range(CHUNKS))
def test_fuzz(index: int, fuzz_seed: int) -> None:
    """No crash and no false symmetry; at most a tenth trivial without an unknown operation."""
    outcome = chunk(fuzz_seed, index)
    text = "\n\n".join(outcome.failures)
    assert not outcome.failures, f"PARAMSYM_FUZZ_SEED={fuzz_seed}: {len(outcome.failures)}\n{text}"
    # A chunk is a small sample: two standard deviations above a tenth.
    bound = TRIVIAL_SHARE * outcome.known + 2 * (0.09 * max(outcome.known, 1)) ** 0.5
    assert len(outcome.trivial) <= bound, (
        f"PARAMSYM_FUZZ_SEED={fuzz_seed}: {len(outcome.trivial)} of {outcome.known} are trivial, "
        f"seeds {outcome.trivial}"
    )


@pytest.mark.parametrize(("seed", "unknown"), _remembered())
def test_fuzz_remembered(seed: int, unknown: bool) -> None:
    """Seeds that failed once."""
    fuzzed(seed, unknown, Outcome())


def test_fuzz_names_unknown_operations(fuzz_seed: int) -> None:
    """Only where nothing could move anyway does an unknown operation go without a word."""
    programs = [generate(1_000_000 * fuzz_seed + i, True) for i in range(40)]
    named = [bool(ps.symmetries(p.build(), p.x()).pinned) for p in programs]
    assert sum(named) >= 30, f"PARAMSYM_FUZZ_SEED={fuzz_seed}: {sum(named)} of 40 are named"


def test_fuzz_is_reproducible(fuzz_seed: int) -> None:
    first, second = generate(fuzz_seed), generate(fuzz_seed)
    assert first.source == second.source
    x = first.x()
    one, two = dense.outputs(first.build(), x), dense.outputs(second.build(), x)
    assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))


def test_fuzz_covers_every_operation(fuzz_seed: int) -> None:
    """Each kind of line occurs often: nothing is tested by luck."""
    programs = [generate(1_000_000 * fuzz_seed + i) for i in range(400)]
    seen: Counter[str] = Counter()
    for program in programs:
        seen.update(set(program.kinds))
    kinds = {*_kinds()}
    rare = {kind: seen[kind] for kind in kinds if seen[kind] < 2}
    assert not rare, f"in 400 graphs: {rare}"
    assert all(_written_space(program) for program in programs)


def _kinds() -> set[str]:
    """What every step is counted as."""
    pointwise = {"relu", "odd", "smooth", "sigmoid", "even", "power", "exp"}
    names = {"pointwise", "heads", "again_from_input"}
    return {name for name in STEPS if name not in names} | pointwise | {"view", "embedding"}


def _written_space(program: Program) -> bool:
    """A hidden space is written by one parameter and read by another one."""
    return sum(program.kinds[kind] for kind in ("linear", "conv", "embedding")) >= 2
