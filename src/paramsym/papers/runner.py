"""Run claims in parallel; every finished one is on disk at once, so a kill loses little."""

from __future__ import annotations

import json
import os
import secrets
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from dataclasses import asdict
from io import BytesIO
from pathlib import Path
from typing import Any

import joblib
import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from paramsym.errors import ClaimError
from paramsym.papers.claim import Claim, Outcome, Scale, check_scale
from paramsym.papers.fingerprint import fingerprint, library_code
from paramsym.papers.ledger import ERROR, Ledger, Record
from paramsym.papers.registry import select


def reproduce(
    selection: str | Sequence[str] | None = None,
    *,
    scale: Scale = "quick",
    jobs: int | None = None,
    out: str | Path = "reproduction",
    seed: int = 0,
    progress: bool | None = None,
    resume: bool = True,
    claims: Iterable[Claim] | None = None,
) -> Ledger:
    """Run the selected claims and write `out/ledger.json`; see `docs/papers.md`.

    Each finished claim is written to its own file in `out/claims`, and taken from there next time
    if neither its code, nor the library's, nor scale, seed or torch version changed.
    `jobs=None` takes what `joblib.parallel_config` says, and every core where it says nothing;
    the backend is always the configured one.

    >>> import tempfile
    >>> ledger = reproduce("flat_minima/example-3-4", jobs=1, out=tempfile.mkdtemp())
    >>> ledger.summary, ledger.exit_status
    ({'holds': 1}, 0)
    """
    check_scale(scale)
    chosen = select(selection, claims)
    folder = _writable(Path(out))
    library = library_code()
    keys = {claim.id: fingerprint(claim, scale, seed, library) for claim in chosen}
    records: dict[str, Record] = {}
    if resume:
        finished = (_load(claim, scale, keys[claim.id], folder) for claim in chosen)
        records = {record.id: record for record in finished if record is not None}
    left = [claim for claim in chosen if claim.id not in records]
    tasks = [joblib.delayed(_finish)(c, scale, seed, keys[c.id], folder) for c in left]
    with _progress_bar(progress, len(chosen), len(records)) as advance:
        try:
            for record in _stream(tasks, jobs):
                records[record.id] = record
                advance()
        except BrokenExecutor as broken:
            records |= _after_a_crash(left, records, scale, keys, folder, str(broken))
    ledger = Ledger(tuple(records[claim.id] for claim in chosen))
    write(folder / "ledger.json", _encode(ledger.to_dict()))
    return ledger


def _writable(folder: Path) -> Path:
    """Find out before the work, not after it."""
    try:
        (folder / "claims").mkdir(parents=True, exist_ok=True)
        write(folder / "claims" / "probe", b"")
        (folder / "claims" / "probe").unlink(missing_ok=True)
    except OSError as reason:
        raise ClaimError(
            f"cannot write results ({reason})", where=str(folder), remedy="choose another out="
        ) from reason
    return folder


def _stream(tasks: list[Any], jobs: int | None) -> Iterator[Record]:
    """Results as they come, on whatever backend joblib is configured to use."""
    if not tasks:
        return
    workers = jobs if jobs is not None or joblib.effective_n_jobs(None) > 1 else -1
    try:
        pool = joblib.Parallel(workers, batch_size=1, return_as="generator_unordered")
    except ValueError:  # a backend that can only hand back everything at once
        pool = joblib.Parallel(workers, batch_size=1)
    yield from pool(tasks)


def _finish(claim: Claim, scale: Scale, seed: int, key: str, folder: Path) -> Record:
    """Run one claim where we are, and leave its record on disk before returning it."""
    start = time.perf_counter()
    measured: dict[str, Any] = {}
    figure: str | None = None
    try:
        with _alone(seed):
            outcome = claim.run(scale, seed)
        # Through JSON and back: what a resumed run reads is what a fresh one returns.
        measured = json.loads(_encode(dict(outcome.measured)))
        figure = _draw(outcome, claim, scale, folder)
        verdict, note = str(outcome.verdict), outcome.note
    except Exception:  # whatever a claim raises is its result, and must not stop the others
        verdict, note = ERROR, traceback.format_exc()
    record = Record(
        id=claim.id,
        paper=claim.paper,
        source=claim.source,
        statement=claim.statement,
        verdict=verdict,
        expected=claim.expected,
        measured=measured,
        note=note,
        seconds=round(time.perf_counter() - start, 3),
        figure=figure,
        expected_verdict=claim.expected_verdict,
    )
    write(_path(claim, scale, folder), _encode({"key": key, "record": asdict(record)}))
    return record


@contextmanager
def _alone(seed: int) -> Iterator[None]:
    """One torch thread and a random state of its own; the process gets its own back."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            yield
    finally:
        torch.set_num_threads(threads)


def _draw(outcome: Outcome, claim: Claim, scale: Scale, folder: Path) -> str | None:
    if outcome.figure is None:
        return None
    from matplotlib.figure import Figure

    canvas = Figure(layout="constrained")
    outcome.figure(canvas)
    image = BytesIO()
    canvas.savefig(image, format="png", dpi=150)
    name = f"figures/{claim.id}.{scale}.png"
    write(folder / name, image.getvalue())
    return name


def _path(claim: Claim, scale: Scale, folder: Path) -> Path:
    return folder / "claims" / f"{claim.id}.{scale}.json"


def _load(claim: Claim, scale: Scale, key: str, folder: Path) -> Record | None:
    """The record of an earlier run, if it is whole, not an error, and of this very code."""
    try:
        stored = json.loads(_path(claim, scale, folder).read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    if stored.get("key") != key:
        return None
    record = Record(**stored["record"])
    if record.verdict == ERROR or (record.figure and not (folder / record.figure).exists()):
        return None
    return record


def _after_a_crash(
    left: list[Claim],
    records: dict[str, Record],
    scale: Scale,
    keys: dict[str, str],
    folder: Path,
    why: str,
) -> dict[str, Record]:
    """A worker process died: keep what was written, and say of the rest that it did not run."""
    lost: dict[str, Record] = {}
    for claim in left:
        if claim.id not in records:
            lost[claim.id] = _load(claim, scale, keys[claim.id], folder) or Record(
                id=claim.id,
                paper=claim.paper,
                source=claim.source,
                statement=claim.statement,
                verdict=ERROR,
                expected=claim.expected,
                measured={},
                note=f"a worker process died before this claim finished; run again, "
                f"with fewer jobs if memory was short ({why})",
                seconds=0.0,
                figure=None,
                expected_verdict=claim.expected_verdict,
            )
    return lost


def write(path: Path, content: bytes) -> None:
    """Write all of a file or nothing of it, whenever the process is killed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    part.write_bytes(content)
    os.replace(part, path)


def _encode(value: object) -> bytes:
    return (json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


@contextmanager
def _progress_bar(show: bool | None, total: int, done: int) -> Iterator[Any]:
    console = Console(stderr=True)
    columns = (TextColumn("claims"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    hidden = not (console.is_terminal if show is None else show)
    with Progress(*columns, console=console, transient=True, disable=hidden) as bar:
        task = bar.add_task("claims", total=total, completed=done)
        yield lambda: bar.advance(task)
