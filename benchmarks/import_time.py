"""How long `import paramsym` takes beyond torch, and how long `paramsym --help` takes.

python benchmarks/import_time.py [--repeats 7]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time

from clock import machine, write

COMMANDS = {
    "python": ["-c", "pass"],
    "import torch": ["-c", "import torch"],
    "import paramsym": ["-c", "import paramsym"],
    "import torch, then paramsym": ["-c", "import torch, paramsym"],
    "import torch, then every public name": [
        "-c",
        "import torch, paramsym; [getattr(paramsym, name) for name in paramsym.__all__]",
    ],
    "paramsym --help": ["-m", "paramsym", "--help"],
}


def median_seconds(command: list[str], repeats: int) -> float:
    """Median wall time of a fresh interpreter, after one that fills the disk cache."""
    times = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def main() -> None:
    """Time every command and write the table."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--repeats", type=int, default=7)
    repeats = arguments.parse_args().repeats
    seconds = {name: median_seconds(command, repeats) for name, command in COMMANDS.items()}
    rows = [{"command": name, "seconds": f"{value:.3f}"} for name, value in seconds.items()]
    print(write("import_time", rows, machine()))


if __name__ == "__main__":
    main()
