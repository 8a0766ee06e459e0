"""How long published sizes take to derive, without weights, against exporting the same model.

python benchmarks/size.py [--models gpt2,gpt2-xl,llama-70b]

Every model is built on the meta device from its published configuration, reads eight tokens, and
has a process of its own, so that the peak of memory is its own too.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from clock import machine, write

NAMES = ("gpt2", "gpt2-xl", "llama-70b")
TOKENS = 8


def build(name: str) -> Any:
    """The model on the meta device, in eval mode."""
    import torch
    import transformers

    with torch.device("meta"):
        if name == "llama-70b":
            config = transformers.LlamaConfig(
                hidden_size=8192,
                num_hidden_layers=80,
                num_attention_heads=64,
                num_key_value_heads=8,
                intermediate_size=28672,
                vocab_size=128256,
                rms_norm_eps=1e-5,
                use_cache=False,
            )
            return transformers.LlamaForCausalLM(config).eval()
        sizes = {} if name == "gpt2" else {"n_embd": 1600, "n_layer": 48, "n_head": 25}
        config = transformers.GPT2Config(use_cache=False, **sizes)
        return transformers.GPT2LMHeadModel(config).eval()


def timed(run: Callable[[], Any]) -> tuple[Any, float, float]:
    """What a call returns, and its seconds by the wall and of this process's CPU."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = run()
    return result, time.perf_counter() - wall, time.process_time() - cpu


def measure(name: str, what: str) -> dict[str, Any]:
    """Derive, or export, once in this process."""
    import torch

    import paramsym as ps

    torch.set_num_threads(1)
    model = build(name)
    x = {"input_ids": torch.zeros(1, TOKENS, dtype=torch.long)}
    if what == "export":
        _, wall, cpu = timed(lambda: torch.export.export(model, (), x, strict=False))
        dim = None
    else:
        sym, wall, cpu = timed(lambda: ps.symmetries(model, x))
        dim = sym.dim
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    weights = sum(p.numel() for p in model.parameters())
    return {"dim": dim, "wall": wall, "cpu": cpu, "peak": peak, "weights": weights}


def fresh(name: str, what: str) -> dict[str, Any]:
    """The same in a process of its own."""
    command = [sys.executable, __file__, "--one", name, what]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=env)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def row(name: str) -> dict[str, Any]:
    """One line of the table."""
    ours, export = fresh(name, "derive"), fresh(name, "export")
    return {
        "model": name,
        "weights": f"{ours['weights'] / 1e9:.2f} G",
        "dimension of the group": ours["dim"],
        "paramsym (s)": f"{ours['wall']:.1f}",
        "CPU (s)": f"{ours['cpu']:.1f}",
        "peak (GB)": f"{ours['peak']:.2f}",
        "torch.export (s)": f"{export['wall']:.1f}",
        "paramsym / torch.export (CPU)": f"{ours['cpu'] / export['cpu']:.2f}",
    }


def main() -> None:
    """Measure every model and write the table."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--models", default=",".join(NAMES))
    arguments.add_argument("--one", nargs=2, metavar=("MODEL", "WHAT"), help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.one:
        print(json.dumps(measure(*options.one)))
        return
    rows = [row(name) for name in options.models.split(",")]
    print(write("size", rows, machine()))


if __name__ == "__main__":
    main()
