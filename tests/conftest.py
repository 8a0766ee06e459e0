"""One torch thread, a fresh fuzz seed that the header prints, and the hypothesis profiles."""

from __future__ import annotations

import os
import secrets

# Before torch is imported anywhere: pytest-xdist runs one process a core.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")
# Workers inherit the environment, so that all of them fuzz with the seed the header prints.
os.environ.setdefault("PARAMSYM_FUZZ_SEED", str(secrets.randbelow(2**31)))

import pytest
import torch
from hypothesis import HealthCheck, settings

torch.set_num_threads(1)

# Randomised even in CI, where hypothesis would repeat itself; failures print how to replay.
settings.register_profile(
    "ci",
    deadline=None,
    derandomize=False,
    max_examples=25,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("dev", settings.get_profile("ci"), max_examples=10)
settings.register_profile("fuzz", settings.get_profile("ci"), max_examples=500)
PROFILE = "ci" if os.environ.get("CI") else "dev"
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", PROFILE))


def pytest_report_header() -> str:
    """The seed that replays this run's random graphs."""
    return f"PARAMSYM_FUZZ_SEED={os.environ['PARAMSYM_FUZZ_SEED']}"


@pytest.fixture(scope="session")
def fuzz_seed() -> int:
    """Fresh on every run unless PARAMSYM_FUZZ_SEED is set; printed in the header."""
    return int(os.environ["PARAMSYM_FUZZ_SEED"])
