"""Medians of repeated runs, and where they were measured."""

from __future__ import annotations

import json
import os
import platform
import resource
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def median_cpu_seconds(runs: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median CPU time of each call, after one that warms caches up.

    CPU time of this process and of those it starts, not wall time: on a shared machine the wall
    clock measures the neighbours too. The calls take turns, so that all see the same machine.
    """
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats + 1):
        for name, run in runs.items():
            start = cpu_seconds()
            run()
            times[name].append(cpu_seconds() - start)
    return {name: statistics.median(seconds[1:]) for name, seconds in times.items()}


def cpu_seconds() -> float:
    """What this process and its finished children have used so far."""
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in usage)


def machine() -> dict[str, Any]:
    """What a reader needs to compare figures."""
    import torch

    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "processor": platform.machine(),
    }


def write(name: str, rows: list[dict[str, Any]], about: dict[str, Any]) -> str:
    """Save rows as JSON and as a markdown table, and return the table."""
    RESULTS.mkdir(exist_ok=True)
    content = json.dumps({"machine": about, "rows": rows}, indent=2) + "\n"
    (RESULTS / f"{name}.json").write_text(content, encoding="utf-8")
    columns = list(rows[0])
    lines = ["| " + " | ".join(columns) + " |", "| " + " | ".join("-" for _ in columns) + " |"]
    lines += ["| " + " | ".join(str(row[column]) for column in columns) + " |" for row in rows]
    table = "\n".join(lines) + "\n"
    (RESULTS / f"{name}.md").write_text(table, encoding="utf-8")
    return table
