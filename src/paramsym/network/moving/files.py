"""Moving the weights in safetensors files, one tensor at a time, without the model.

A safetensors file is eight bytes with the length of its header, the header (JSON: dtype, shape and
place of every tensor), and the bytes of the tensors. A motion changes neither dtypes nor shapes, so
the moved file is a copy with other bytes in the same places.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from paramsym.errors import ParamsymError
from paramsym.network.element import Element
from paramsym.network.moving.act import Act
from paramsym.network.moving.fit import canonical_of, refuse_misfit

if TYPE_CHECKING:
    from paramsym.network.symmetry import Symmetry

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
# Weights in formats that are not moved: beside moved ones they would be those of another model.
_LEFT_OUT = shutil.ignore_patterns("*.bin", "*.pt", "*.pth", "*.h5", "*.msgpack", ".*")


def move_files(sym: Symmetry, g: Element, source: Path, target: Path) -> None:
    """Write to `target` what `source`, a file or a folder, becomes under g.

    All of it is written beside the target first, and renamed in the end.
    """
    if not source.exists():
        raise ParamsymError("there is no such file or folder", where=str(source))
    if source.is_dir() and target.exists():
        raise ParamsymError(
            "exists already", where=str(target), remedy="name a folder that does not"
        )
    with ExitStack() as stack:
        stored = Stored(shards_of(source), sym, stack)
        stored.refuse_misfit(str(source))
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=target.parent)))
        copy = beside / target.name
        if source.is_dir():
            shutil.copytree(source, copy, ignore=_LEFT_OUT)
        else:
            shutil.copyfile(source, copy)
        act = Act(sym, g, stored)
        for shard in stored.shards:
            _overwrite(copy / shard.name if source.is_dir() else copy, act)
        os.replace(copy, target)


def shards_of(source: Path) -> list[Path]:
    """The safetensors files of a checkpoint: itself, its one file, or those its index lists."""
    if not source.is_dir():
        return [source]
    if (source / INDEX).exists():
        listed = json.loads((source / INDEX).read_text(encoding="utf-8"))["weight_map"]
        return [source / name for name in sorted(set(listed.values()))]
    if (source / SINGLE).exists():
        return [source / SINGLE]
    raise ParamsymError(f"holds neither {SINGLE} nor {INDEX}", where=str(source))


class Stored(Mapping[str, Tensor]):
    """The tensors of some safetensors files, read when asked for, under any of their names."""

    def __init__(self, shards: list[Path], sym: Symmetry, stack: ExitStack) -> None:
        self.shards, self._sym = shards, sym
        self._files: dict[str, Any] = {}
        for shard in shards:
            try:
                file = stack.enter_context(safe_open(str(shard), framework="pt"))
            except (OSError, SafetensorError) as error:
                raise ParamsymError(
                    f"cannot be read as safetensors: {error}", where=str(shard)
                ) from error
            self._files |= dict.fromkeys(file.keys(), file)

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._files:
            name = next((n for n in self._sym.aliases.get(name, ()) if n in self._files), name)
        tensor: Tensor = self._files[name].get_tensor(name)
        return tensor

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    def refuse_misfit(self, where: str) -> None:
        """Every parameter of the model has to be there, and every buffer that moves."""
        sym = self._sym
        shapes = {name: file.get_slice(name).get_shape() for name, file in self._files.items()}
        refuse_misfit(sym, shapes, dict.fromkeys([*sym.parameters, *sym.needed]), where)
        for names in sym.aliases.values():
            first, *others = [name for name in names if name in self._files]
            for other in others:
                if not torch.equal(self[first], self[other]):
                    raise ParamsymError(
                        f"{first} and {other} differ, but are one tensor in the model",
                        where=where,
                        remedy="derive the symmetry of the model with its weights untied",
                    )


def _overwrite(path: Path, act: Act) -> None:
    """Put moved tensors in the places that the header gives."""
    own = canonical_of(act.sym)
    with path.open("r+b") as file:
        start, places = _header(file)
        for name, entry in places.items():
            if own.get(name, name) in act.sym.needed:
                moved = act.final(own.get(name, name)).to(act.params[name].dtype)
                file.seek(start + entry["data_offsets"][0])
                file.write(_bytes(moved))


def _header(file: BinaryIO) -> tuple[int, dict[str, dict[str, Any]]]:
    """Where the tensors start, and what the header says of each."""
    (length,) = struct.unpack("<Q", file.read(8))
    header = json.loads(file.read(length))
    return 8 + length, {name: entry for name, entry in header.items() if name != "__metadata__"}


def _bytes(tensor: Tensor) -> bytes:
    content: bytes = tensor.reshape(-1).view(torch.uint8).numpy().tobytes()
    return content
