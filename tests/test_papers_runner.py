"""The frame of the papers' claims: resumes after a kill, invalidates, parallel = serial, ledger."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import joblib
import pytest
import torch

import paramsym
from paramsym.papers import Claim, Outcome, claim, judge, reproduce, select
from paramsym.papers.registry import all_claims
from slow_claims import COUNT, Slow, dies, fails, make, slow_claims

API_KEYS = [
    "id", "paper", "source", "statement", "verdict",
    "expected", "measured", "note", "seconds", "figure",
]  # fmt: skip


def started(log: Path) -> list[str]:
    return log.read_text().split() if log.exists() else []


def finished(out: Path) -> set[str]:
    return {f"slow/{file.name.split('.')[0]}" for file in out.glob("claims/slow/*.json")}


@pytest.mark.parametrize("after", [2, 5])
def test_a_killed_run_loses_only_what_was_in_flight(tmp_path: Path, after: int) -> None:
    out, log, jobs = tmp_path / "out", tmp_path / "log", 2
    tests, source = Path(__file__).parent, Path(paramsym.__file__).parents[1]
    program = [sys.executable, str(tests / "slow_claims.py"), str(out), str(log), str(jobs)]
    environment = os.environ | {"PYTHONPATH": f"{source}{os.pathsep}{tests}"}
    run = subprocess.Popen(program, env=environment, start_new_session=True)
    deadline = time.monotonic() + 120
    while len(finished(out)) < after and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()

    done, begun = finished(out), set(started(log))
    assert after <= len(done) < COUNT, "the kill came in the middle"
    assert len(begun - done) <= jobs, "everything but what was in flight is on disk"
    assert not (out / "ledger.json").exists()

    log.unlink()
    again = slow_claims_with_no_wait(log)
    ledger = reproduce(claims=again, out=out, jobs=1)
    assert set(started(log)) == {c.id for c in again} - done
    assert ledger.summary == {"holds": COUNT}
    assert ledger.exit_status == 0


def slow_claims_with_no_wait(log: Path) -> list[Claim]:
    """The waiting time is no part of the code, so the stored results stay valid."""
    return slow_claims(log, seconds=0.0)


def test_parallel_and_serial_runs_agree(tmp_path: Path) -> None:
    claims = slow_claims(tmp_path / "log", seconds=0.0)
    serial = reproduce(claims=claims, out=tmp_path / "serial", jobs=1)
    parallel = reproduce(claims=claims, out=tmp_path / "parallel", jobs=2)
    assert without_time(serial) == without_time(parallel)
    other = reproduce(claims=claims, out=tmp_path / "other", jobs=1, seed=1)
    assert without_time(serial) != without_time(other), "the seed reaches the measurements"


def without_time(ledger) -> list[dict]:
    return [{**entry, "seconds": None} for entry in ledger.to_dict()["claims"]]


@pytest.mark.parametrize("backend", ["threading", "sequential", "multiprocessing"])
def test_any_joblib_backend_serves(tmp_path: Path, backend: str) -> None:
    claims = slow_claims(tmp_path / "log", seconds=0.0)[:3]
    with joblib.parallel_config(backend=backend, n_jobs=2):
        ledger = reproduce(claims=claims, out=tmp_path / "out")
    assert ledger.summary == {"holds": 3}


def test_running_leaves_the_callers_threads_and_random_state_alone(tmp_path: Path) -> None:
    torch.manual_seed(5)
    before, threads = torch.random.get_rng_state(), torch.get_num_threads()
    reproduce(claims=[make("a/b", Slow("a/b", tmp_path / "log", 0.0))], out=tmp_path, jobs=1)
    assert torch.equal(before, torch.random.get_rng_state())
    assert torch.get_num_threads() == threads


MODULE = """
from paramsym.papers import Outcome

def measure(scale, seed):
    return Outcome({{"value": {value}}}, "holds")
"""


def load(folder: Path, value: int, monkeypatch: pytest.MonkeyPatch) -> Claim:
    """A claim from a module of its own, whose code says `value`."""
    file = folder / "claims_of_a_user.py"
    file.write_text(MODULE.format(value=value))
    monkeypatch.syspath_prepend(str(folder))
    sys.modules.pop(file.stem, None)
    # The byte code is keyed by whole seconds and size, which both versions share.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return make("user/claim", __import__(file.stem).measure)


def test_stored_results_follow_the_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def value(number: int, **options) -> int:
        claims = [load(tmp_path, number, monkeypatch)]
        ledger = reproduce(claims=claims, out=tmp_path / "out", jobs=1, **options)
        return ledger.records[0].measured["value"]

    assert value(1) == 1
    assert value(2) == 2, "changed code invalidates"
    stored = tmp_path / "out/claims/user/claim.quick.json"
    content = json.loads(stored.read_text())
    content["record"]["measured"]["value"] = 77
    stored.write_text(json.dumps(content))
    assert value(2) == 77, "unchanged code is not run again"
    assert value(2, seed=1) == 2
    assert value(2, scale="full") == 2
    assert value(2, resume=False) == 2
    stored.write_text("{ half a file")
    assert value(2) == 2, "a damaged record is a missing record"


def test_changed_library_code_invalidates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    claims = [make("a/b", Slow("a/b", log, 0.0))]
    for library in (b"one", b"one", b"two"):
        monkeypatch.setattr("paramsym.papers.runner.library_code", lambda code=library: code)
        reproduce(claims=claims, out=tmp_path, jobs=1)
    assert len(started(log)) == 2


def test_the_ledger_is_what_the_interface_says(tmp_path: Path) -> None:
    def drawn(figure) -> None:
        figure.subplots().plot([1, 2, 3])

    claims = [
        make("p/plain", Slow("p/plain", tmp_path / "log", 0.0), expected={"noise": 0}),
        make("p/drawn", lambda scale, seed: Outcome({"x": 1}, "refuted", "why", drawn), "refuted"),
    ]
    ledger = reproduce(claims=claims, out=tmp_path, jobs=1)
    written = json.loads((tmp_path / "ledger.json").read_text())
    assert written == ledger.to_dict()
    assert list(written) == ["claims", "summary"]
    assert [list(entry) for entry in written["claims"]] == [API_KEYS] * 2
    assert written["summary"] == {"holds": 1, "refuted": 1}
    plain, picture = written["claims"]
    assert (plain["paper"], plain["expected"], plain["figure"]) == ("p", {"noise": 0}, None)
    assert (tmp_path / picture["figure"]).read_bytes().startswith(b"\x89PNG")
    assert ledger.exit_status == 0, "a refuted statement on record is no failure"
    assert re.search(r"p/drawn \(.*\): why", str(ledger))
    (tmp_path / picture["figure"]).unlink()
    reproduce(claims=claims, out=tmp_path, jobs=1)
    assert (tmp_path / picture["figure"]).exists(), "a lost figure is drawn again"


def test_a_failing_claim_is_an_error_and_stops_nothing(tmp_path: Path) -> None:
    log = tmp_path / "log"
    claims = [make("p/bad", fails), make("p/good", Slow("p/good", log, 0.0))]
    ledger = reproduce(claims=claims, out=tmp_path, jobs=1)
    bad, good = ledger.to_dict()["claims"]
    assert bad["verdict"] == "error"
    assert "this measurement went wrong" in bad["note"]
    assert "Traceback" in bad["note"]
    assert good["verdict"] == "holds"
    assert ledger.summary == {"holds": 1, "error": 1}
    assert ledger.exit_status == 1
    reproduce(claims=[make("p/bad", Slow("p/bad", log, 0.0)), claims[1]], out=tmp_path, jobs=1)
    assert started(log) == ["p/good", "p/bad"], "an error is tried again, a result is not"


def test_nowhere_to_write_is_said_before_the_work(tmp_path: Path) -> None:
    log, file = tmp_path / "log", tmp_path / "file"
    file.write_text("in the way")
    with pytest.raises(paramsym.ParamsymError, match="cannot write results"):
        reproduce(claims=[make("a/b", Slow("a/b", log, 0.0))], out=file / "out", jobs=1)
    assert not started(log)


@pytest.mark.parametrize("measured", [{"x": float("nan")}, {"x": torch.ones(2)}])
def test_what_is_no_plain_json_is_an_error(tmp_path: Path, measured: dict) -> None:
    claims = [make("p/odd", lambda scale, seed: Outcome(measured, "holds"))]
    assert reproduce(claims=claims, out=tmp_path, jobs=1).summary == {"error": 1}


def test_a_dying_worker_costs_only_what_it_held(tmp_path: Path) -> None:
    log = tmp_path / "log"
    good = [make(f"p/good-{i}", Slow(f"p/good-{i}", log, 0.0)) for i in range(3)]
    ledger = reproduce(claims=[*good, make("p/dies", dies)], out=tmp_path, jobs=2)
    assert ledger.exit_status == 1
    assert "worker process died" in ledger.records[-1].note
    again = reproduce(claims=good, out=tmp_path, jobs=1)
    assert again.summary == {"holds": 3}


def test_a_changed_verdict_is_a_failure_that_is_named(tmp_path: Path) -> None:
    """The negative control of the frame: a perturbed measurement comes to another verdict."""

    def rank_two(value: int) -> Claim:
        outcome = Outcome({"rank": value}, judge(value == 2, control=True))
        return make("p/rank", lambda scale, seed: outcome, expected={"rank": 2})

    right = reproduce(claims=[rank_two(2)], out=tmp_path / "right", jobs=1)
    wrong = reproduce(claims=[rank_two(3)], out=tmp_path / "wrong", jobs=1)
    assert (right.records[0].verdict, right.exit_status) == ("holds", 0)
    assert (wrong.records[0].verdict, wrong.exit_status) == ("refuted", 1)
    assert "verdict changed: holds expected" in wrong.to_dict()["claims"][0]["note"]
    assert [record.id for record in wrong.surprises] == ["p/rank"]


def test_no_verdict_without_a_control_that_breaks() -> None:
    with pytest.raises(paramsym.ParamsymError, match="negative control"):
        judge(True, control=False)


def test_selections(tmp_path: Path) -> None:
    pool = [make(id, fails) for id in ("one/a-1", "one/a-2", "one/b", "two/a-1")]

    def names(selection) -> list[str]:
        return [c.id for c in select(selection, pool)]

    assert names(None) == [c.id for c in pool]
    assert names("one") == names("one/") == ["one/a-1", "one/a-2", "one/b"]
    assert names("one/a-*") == ["one/a-1", "one/a-2"]
    assert names("*/a-1") == ["one/a-1", "two/a-1"]
    assert names(["two", "one/b"]) == ["one/b", "two/a-1"]
    with pytest.raises(paramsym.ParamsymError, match=r"no claim matches 'one/a-3'.*one/a-"):
        names("one/a-3")
    with pytest.raises(paramsym.ParamsymError, match="did you mean one/b"):
        names("b")
    with pytest.raises(paramsym.ParamsymError, match="papers here: one, two"):
        names("zzzzzz")
    with pytest.raises(paramsym.ParamsymError, match="unknown scale 'huge'"):
        reproduce(claims=pool, out=tmp_path, scale="huge")


def test_the_same_id_twice_is_refused() -> None:
    taken = all_claims()[0]
    with pytest.raises(paramsym.ParamsymError, match="registered twice"):
        claim(taken.id, source="", statement="", expected={}, expected_verdict="holds")(fails)


@pytest.mark.parametrize("id", ["no-slash", "a/b/c", "/b", "a/"])
def test_ids_are_paper_and_name(id: str) -> None:
    with pytest.raises(paramsym.ParamsymError, match="paper/name"):
        make(id, fails)


def test_an_unknown_verdict_is_refused() -> None:
    with pytest.raises(paramsym.ParamsymError, match="unknown verdict"):
        Outcome({}, "true")
    with pytest.raises(paramsym.ParamsymError, match="unknown verdict"):
        make("a/b", fails, expected_verdict="false")


def test_a_progress_bar_on_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    claims = [make("a/b", Slow("a/b", tmp_path / "log", 0.0))]
    reproduce(claims=claims, out=tmp_path, jobs=1, progress=False)
    assert capsys.readouterr().err == ""
    reproduce(claims=claims, out=tmp_path, jobs=1, progress=True)
