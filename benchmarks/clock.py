"""Medians of repeated runs, and where they were measured."""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def median_cpu_seconds(run: Callable[[], object], repeats: int) -> float:
    """Median CPU time of a call, after one that warms caches up.

    CPU time of the whole process, not wall time: on a shared machine the wall clock measures the
    neighbours too.
    """
    run()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return statistics.median(times)


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
