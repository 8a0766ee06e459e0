"""The demonstration: a net trained on real digits, moved far without changing one prediction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from rich.console import Console
from rich.progress import track
from torch import Tensor, nn

import paramsym as ps
from paramsym.network.call import call
from paramsym.report.analysis import Analysis, analyze
from paramsym.report.tables import console, share, show_analysis, show_facts, show_rows

if TYPE_CHECKING:
    from paramsym import Explanation, Symmetry

EPOCHS = 40
BATCH = 64
# Of the 1797 images, shuffled; the others test.
TRAINING = 1397
# Short, so that three settings of the weights fit 80 columns without a broken line.
MEASURES = ("accuracy", "moved by", "labels changed", "logits off by")


@dataclass(frozen=True)
class Digits:
    """scikit-learn's handwritten digits: 8x8 images, pixels in [0, 1], and their labels."""

    train_x: Tensor
    train_y: Tensor
    test_x: Tensor
    test_y: Tensor


@dataclass(frozen=True)
class Place:
    """What the net does at one setting of its weights.

    `moved` is the distance from the trained weights relative to their norm, `changed` the number
    of test images predicted differently, `deviation` the largest change of a logit.
    """

    name: str
    accuracy: float
    moved: float
    changed: int
    deviation: float


@dataclass(frozen=True)
class Demonstration:
    """The analysis of the trained net, and the net at three settings of its weights.

    `on_digits` explains what is flat on the test images alone, by the larger group of that batch.
    """

    analysis: Analysis
    on_digits: Explanation
    trained: Place
    along: Place
    control: Place

    @property
    def holds(self) -> bool:
        """All checks passed, the symmetry changed no prediction, and the control did."""
        unchanged = self.along.changed == 0 and self.along.moved > 0
        return self.analysis.holds and unchanged and self.control.changed > 0

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        places = [vars(place) for place in (self.trained, self.along, self.control)]
        return {
            "analysis": self.analysis.to_dict(),
            "on_digits": self.on_digits.to_dict(),
            "places": places,
            "holds": self.holds,
        }


def digits(seed: int) -> Digits:
    """The images, shuffled and split into training and test ones."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    x = torch.from_numpy(images).to(torch.float32).reshape(-1, 1, 8, 8) / 16
    y = torch.from_numpy(labels).to(torch.int64)
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(seed))
    train, test = order[:TRAINING], order[TRAINING:]
    return Digits(x[train], y[train], x[test], y[test])


def convnet() -> nn.Sequential:
    """A small ReLU convnet for 8x8 images."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 12, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(48, 24),
        nn.ReLU(),
        nn.Linear(24, 10),
    )


def demo(out: Console, *, seed: int = 0) -> Demonstration:
    """Train, analyse, move the weights along the symmetry, and print all of it."""
    data = digits(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = convnet()
        train(model, data, seed)
    model.eval()
    out.print(f"a ReLU convnet trained on {TRAINING} handwritten digits, space by space:\n")
    with console(stderr=True).status("deriving, proving and measuring"):
        analysis = analyze(model, data.test_x[:32], seed=seed)
        on_digits = explain_on(model, data.test_x, seed)
    show_analysis(out, analysis)
    out.print(f"\non {len(data.test_y)} digits alone, with the units that stay on or off there:\n")
    show_facts(out, [("completeness", share(on_digits))])
    result = Demonstration(analysis, on_digits, *walk(model, analysis.symmetry, data, seed))
    out.print(f"\nthe net at three settings of its weights, on {len(data.test_y)} other digits:\n")
    show_rows(
        out,
        ("weights", *MEASURES),
        [row(place) for place in (result.trained, result.along, result.control)],
        right=MEASURES,
    )
    return result


def train(model: nn.Module, data: Digits, seed: int) -> None:
    """Adam on shuffled batches, with a progress bar on a terminal."""
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    bar = console(stderr=True)
    epochs = track(range(EPOCHS), "training", console=bar, disable=not bar.is_terminal)
    for _ in epochs:
        for rows in torch.randperm(TRAINING, generator=generator).split(BATCH):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(data.train_x[rows]), data.train_y[rows]).backward()
            optimizer.step()


def explain_on(model: nn.Module, images: Tensor, seed: int) -> Explanation:
    """Who explains what is flat on these images: units that stay on or off on all of them, too."""
    enlarged = ps.symmetries(model, images, on=images, seed=seed)
    return ps.explain(model, images, sym=enlarged, seed=seed)


def walk(
    model: nn.Module, symmetry: Symmetry, data: Digits, seed: int
) -> tuple[Place, Place, Place]:
    """The net where it was trained, along its symmetry, and as far away in a random direction."""
    start = {name: value.double() for name, value in model.state_dict().items()}
    element = symmetry.sample(seed=seed, scale=0.5)
    along = symmetry.act(element, start)
    control = random_step(start, distance(start, along), seed)
    reference = call(model, start, data.test_x.double())

    def place(name: str, params: dict[str, Tensor]) -> Place:
        logits = call(model, params, data.test_x.double())
        predicted = logits.argmax(1)
        return Place(
            name=name,
            accuracy=float((predicted == data.test_y).double().mean()),
            moved=distance(start, params) / distance(start, None),
            changed=int((predicted != reference.argmax(1)).sum()),
            deviation=float((logits - reference).abs().max()),
        )

    return (
        place("as trained", start),
        place("moved along a symmetry", along),
        place("moved as far at random", control),
    )


def distance(a: dict[str, Tensor], b: dict[str, Tensor] | None) -> float:
    """Euclidean distance between two settings of the weights, or the norm of one."""
    differences = [a[name] - (0 if b is None else b[name]) for name in a]
    return float(torch.cat([difference.flatten() for difference in differences]).norm())


def random_step(params: dict[str, Tensor], length: float, seed: int) -> dict[str, Tensor]:
    """The weights moved by `length` in a uniformly random direction."""
    generator = torch.Generator().manual_seed(seed)
    step = {
        name: torch.randn(value.shape, generator=generator, dtype=value.dtype)
        for name, value in params.items()
    }
    factor = length / distance(step, None)
    return {name: value + factor * step[name] for name, value in params.items()}


def row(place: Place) -> tuple[str, ...]:
    """One line of the table."""
    return (
        place.name,
        f"{place.accuracy:.2%}",
        f"{place.moved:.0%}",
        str(place.changed),
        f"{place.deviation:.1e}",
    )
