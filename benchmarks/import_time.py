"""How long `import paramsym` takes beyond torch, and how long `paramsym --help` takes.

python benchmarks/import_time.py [--repeats 7]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from functools import partial

from clock import machine, median_cpu_seconds, write

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


def run(command: list[str]) -> None:
    """A fresh interpreter."""
    subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    """Time every command and write the table."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--repeats", type=int, default=7)
    repeats = arguments.parse_args().repeats
    runs = {name: partial(run, command) for name, command in COMMANDS.items()}
    seconds = median_cpu_seconds(runs, repeats)
    rows = [{"command": name, "seconds": f"{value:.3f}"} for name, value in seconds.items()]
    print(write("import_time", rows, machine()))


if __name__ == "__main__":
    main()
