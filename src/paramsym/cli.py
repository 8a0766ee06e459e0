"""The command line: parse, call the public interface, print.

Exit status 0 when everything asked for holds, 1 when a check or a claim fails, 2 for bad usage.
Nothing heavy is imported before a command runs, so that `--help` answers at once.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paramsym import __version__
from paramsym.errors import ParamsymError

if TYPE_CHECKING:
    from torch import Tensor, nn

HOLDS, FAILS, BAD_USAGE, INTERRUPTED = 0, 1, 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status.

    >>> main(["analyze", "torch.nn:no_such_model", "--input", "2,3"])
    2
    """
    arguments = parser().parse_args(argv)
    command: Callable[[argparse.Namespace], int] = arguments.command
    try:
        return command(arguments)
    except ParamsymError as error:
        print(f"paramsym: {error}", file=sys.stderr)
        return BAD_USAGE
    except KeyboardInterrupt:
        print("paramsym: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has gone (`paramsym … | head`); keep the interpreter from flushing into it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILS


def parser() -> argparse.ArgumentParser:
    """The grammar of the command line."""
    top = argparse.ArgumentParser(
        prog="paramsym",
        description="Which changes of a model's weights change nothing, derived and proved.",
    )
    top.add_argument("--version", action="version", version=f"paramsym {__version__}")
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    _add_analyze(commands)
    _add_demo(commands)
    _add_reproduce(commands)
    return top


def _add_analyze(commands: Any) -> None:
    analyze = commands.add_parser(
        "analyze",
        help="derive, prove and explain the symmetry of a model",
        description="Derive the symmetry group of a model from its graph, prove it in float64, "
        "and measure how much of what is flat it explains.",
        epilog="example: paramsym analyze my_package.nets:small_cnn --input 1,3,32,32",
    )
    analyze.set_defaults(command=_analyze)
    analyze.add_argument(
        "model",
        metavar="PKG.MODULE:FACTORY",
        help="a function that returns the model, or the model itself; "
        "looked up in the current folder too",
    )
    analyze.add_argument(
        "--input",
        metavar="SHAPE",
        type=_shape,
        action="append",
        required=True,
        help="shape of an example input with its batch axis, 1,3,32,32; repeat for more inputs",
    )
    analyze.add_argument(
        "--dtype",
        choices=("float32", "float64", "float16", "bfloat16"),
        help="of the model and its inputs (default: what the model has)",
    )
    analyze.add_argument(
        "--int-input",
        metavar="HIGH",
        type=_positive,
        help="inputs are integers below HIGH, as a token model wants",
    )
    analyze.add_argument(
        "--train", action="store_true", help="analyse the model in train mode (default: eval mode)"
    )
    analyze.add_argument(
        "--weights",
        metavar="FILE.safetensors",
        type=Path,
        help="weights to load, without executing any code",
    )
    analyze.add_argument("--json", action="store_true", help="print JSON instead of a table")
    analyze.add_argument(
        "--out", metavar="DIR", type=Path, help="also write analysis.json and symmetry.json there"
    )
    analyze.add_argument(
        "--trials", type=_positive, default=8, help="elements that the proof samples (8)"
    )
    analyze.add_argument("--seed", type=int, default=0, help="of inputs, elements and noise (0)")


def _add_demo(commands: Any) -> None:
    demo = commands.add_parser(
        "demo",
        help="train a small net on real digits and show everything on it",
        description="Train a small ReLU convnet on scikit-learn's handwritten digits, derive its "
        "symmetry, and move its weights far along it without changing one prediction.",
    )
    demo.set_defaults(command=_demo)
    demo.add_argument("--seed", type=int, default=0, help="of weights, batches and elements (0)")


def _add_reproduce(commands: Any) -> None:
    reproduce = commands.add_parser(
        "reproduce",
        help="run the claims of the papers and give each its verdict",
        description="Run the claims of the papers in parallel. Finished claims are kept in DIR "
        "and not run again while nothing they depend on has changed.",
    )
    reproduce.set_defaults(command=_reproduce)
    reproduce.add_argument(
        "selection", metavar="PAPER[/CLAIM]", nargs="*", help="which claims (default: all)"
    )
    reproduce.add_argument("--full", action="store_true", help="the papers' own sizes; slow")
    reproduce.add_argument("--jobs", metavar="N", type=int, help="processes (default: all cores)")
    reproduce.add_argument(
        "--out",
        metavar="DIR",
        type=Path,
        default=Path("reproduction"),
        help="where ledger.json goes (reproduction)",
    )
    reproduce.add_argument("--seed", type=int, default=0, help="of every claim (0)")


def _shape(text: str) -> tuple[int, ...]:
    """`1,3,32,32` or `1x3x32x32`, every extent positive."""
    try:
        shape = tuple(int(extent) for extent in text.replace("x", ",").split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a shape such as 1,3,32,32") from None
    if min(shape) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} has an empty axis")
    return shape


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive integer")
    return int(text)


def _analyze(arguments: argparse.Namespace) -> int:
    import torch

    torch.manual_seed(arguments.seed)
    model = _load_model(arguments.model)
    if arguments.weights is not None:
        _load_weights(model, arguments.weights)
    if arguments.dtype is not None:
        model = model.to(getattr(torch, arguments.dtype))
    model.train(arguments.train)
    x = _example_input(model, arguments.input, arguments.int_input, arguments.seed)

    from paramsym.report.analysis import analyze
    from paramsym.report.tables import console, show_analysis

    with console(stderr=True).status("deriving, proving and measuring"):
        result = analyze(
            model, x, tokens=arguments.int_input, trials=arguments.trials, seed=arguments.seed
        )
    if arguments.out is not None:
        _write_json(arguments.out / "analysis.json", result.to_dict())
        _write_json(arguments.out / "symmetry.json", result.symmetry.to_dict())
    if arguments.json:
        print(json.dumps(result.to_dict(), indent=2, ensure_ascii=False))
    else:
        show_analysis(console(), result)
    return HOLDS if result.holds else FAILS


def _load_model(spec: str) -> nn.Module:
    from torch import nn

    module_name, _, name = spec.partition(":")
    if not module_name or not name:
        raise ParamsymError(f"{spec!r} names no model", remedy="write PKG.MODULE:FACTORY")
    # As `python -m` does: a script's own folder comes first, ours would be the virtual environment.
    sys.path.insert(0, os.getcwd())
    try:
        found = import_module(module_name)
        for attribute in name.split("."):
            found = getattr(found, attribute)
    except (ImportError, AttributeError) as error:
        raise ParamsymError(str(error), where=spec, remedy="check the spelling") from error
    model = found if isinstance(found, nn.Module) else _call_factory(found, spec)
    if not isinstance(model, nn.Module):
        raise ParamsymError(
            f"got a {type(model).__name__}, not a torch.nn.Module",
            where=spec,
            remedy="name a function that returns the model",
        )
    return model


def _call_factory(factory: object, spec: str) -> object:
    """What the factory returns; an error inside it keeps its traceback, for it is the user's."""
    if not callable(factory):
        return factory
    try:
        inspect.signature(factory).bind()
    except (TypeError, ValueError) as error:
        raise ParamsymError(
            f"the factory cannot be called without arguments: {error}",
            where=spec,
            remedy="name a function that needs none",
        ) from error
    return factory()


def _load_weights(model: nn.Module, path: Path) -> None:
    from safetensors import SafetensorError
    from safetensors.torch import load_model

    try:
        load_model(model, path)
    except (OSError, RuntimeError, SafetensorError) as error:
        summary = " ".join(str(error).split())
        raise ParamsymError(
            summary, where=str(path), remedy="give weights of this model"
        ) from error


def _example_input(
    model: nn.Module, shapes: list[tuple[int, ...]], high: int | None, seed: int
) -> Tensor | tuple[Tensor, ...]:
    import torch

    generator = torch.Generator().manual_seed(seed)
    dtypes = [p.dtype for p in model.parameters() if p.is_floating_point()]
    dtype = dtypes[0] if dtypes else torch.get_default_dtype()
    if high is not None:
        x = [torch.randint(high, shape, generator=generator) for shape in shapes]
    else:
        x = [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]
    return x[0] if len(x) == 1 else tuple(x)


def _write_json(path: Path, content: dict[str, Any]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise ParamsymError(f"cannot write: {error.strerror}", where=str(path)) from error


def _demo(arguments: argparse.Namespace) -> int:
    from paramsym.report.demo import demo
    from paramsym.report.tables import console

    return HOLDS if demo(console(), seed=arguments.seed).holds else FAILS


def _reproduce(arguments: argparse.Namespace) -> int:
    from paramsym.papers import reproduce
    from paramsym.report.tables import console

    ledger = reproduce(
        arguments.selection or None,
        scale="full" if arguments.full else "quick",
        jobs=arguments.jobs,
        out=arguments.out,
        seed=arguments.seed,
    )
    console().print(ledger)
    return ledger.exit_status
