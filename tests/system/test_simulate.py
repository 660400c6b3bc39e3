"""thole simulate: the figures of docs/policy.md on a real trace, by the program that decides for real, and mistakes in
traces."""
import json
import os
import pathlib
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
THOLE = os.environ.get("THOLE", str(ROOT / "build" / "thole"))
TRACE = ROOT / "tests" / "traces" / "philly_jobs.csv"


def simulate(*arguments):
    return subprocess.run([THOLE, "simulate", *map(str, arguments)], capture_output=True, text=True, timeout=300)


def played(*arguments):
    run = simulate(*arguments, "--json")
    assert run.returncode == 0, run.stderr
    document = json.loads(run.stdout)
    assert document["schema"] == "thole/simulation/1"
    return document, {row["policy"]: row for row in document["policies"]}


@pytest.mark.parametrize("gpus, mean, wide", [(16, 0.30, 0.98), (24, 0.33, 1.03)])
def test_on_a_teams_trace_waits_fall_to_a_third_no_wide_job_pays_and_no_promise_is_broken(gpus, mean, wide):
    document, row = played(TRACE, "--vc", "11cb48", "--gpus", gpus, "--max-width", 8, "--declared", "2.0")
    assert (document["jobs"], document["too_wide"]) == (16072, 19)
    assert row["thole"]["wait"]["mean_by_fifo"] <= mean
    assert row["thole"]["wait_of_wide"]["mean_by_fifo"] <= wide
    assert row["thole"]["late"] == row["fifo"]["late"] == 0
    assert row["thole"]["promised"] > 1000
    # Who fits first starves the wide ones: the trace is one on which that shows.
    assert (
        row["first-fit"]["late"] > 0
        and row["first-fit"]["wait_of_wide"]["mean_by_fifo"] > row["thole"]["wait_of_wide"]["mean_by_fifo"]
    )


def test_easy_backfill_is_slower_than_the_rule():
    _, row = played(TRACE, "--vc", "11cb48", "--gpus", 16, "--max-width", 8, "--policy", "easy")
    assert list(row) == ["easy", "fifo", "first-fit"]
    assert 0.40 < row["easy"]["wait"]["mean_by_fifo"] < 1
    assert row["fifo"]["later_than_fifo"] == 0 < row["easy"]["later_than_fifo"]


def test_where_only_half_declare_no_promise_is_broken_either():
    _, half = played(TRACE, "--vc", "11cb48", "--gpus", 16, "--max-width", 8, "--declaring", "50%")
    assert half["thole"]["late"] == 0
    assert 0.30 < half["thole"]["wait"]["mean_by_fifo"] < 0.99
    _, none = played(TRACE, "--vc", "e13805", "--gpus", 8, "--declaring", "0%")
    assert none["thole"]["wait"] == none["fifo"]["wait"] and none["thole"]["later_than_fifo"] == 0


def test_nothing_declared_is_plain_order():
    _, row = played(TRACE, "--vc", "e13805", "--gpus", 8, "--declared", "none")
    assert {key: value for key, value in row["thole"].items() if key != "policy"} == \
           {key: value for key, value in row["fifo"].items() if key != "policy"}


def test_sixteen_thousand_jobs_take_seconds():
    begin = time.monotonic()
    played(TRACE, "--vc", "11cb48", "--gpus", 24, "--max-width", 8)
    assert time.monotonic() - begin < 60  # some 3 s on a quiet core; the bound is for a busy machine


def test_the_table_names_each_policy_once_and_fits_the_line():
    run = simulate(TRACE, "--vc", "e13805", "--gpus", 16, "--policy", "fifo")
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert [line.split()[0] for line in lines if line.startswith(("thole", "fifo", "first-fit"))] == ["fifo", "first-fit"]
    assert max(map(len, lines)) <= 80, run.stdout


@pytest.mark.parametrize("text, says", [
    ("", "empty"),
    ("arrival_s,num_gpus\n", "trace.csv:1"),
    ("arrival_s,duration_s,num_gpus\n0,10,1\n5,soon,1\n", "trace.csv:3"),
    ("arrival_s,duration_s,num_gpus\n0,10,9\n", "no job"),
])
def test_a_mistake_in_a_trace_is_named_with_its_line(tmp_path, text, says):
    (tmp_path / "trace.csv").write_text(text)
    run = simulate(tmp_path / "trace.csv", "--gpus", 8)
    assert run.returncode == 64 and says in run.stderr, run.stderr


def test_mistakes_on_the_line_are_named():
    for arguments, says in [
        ((), "trace"),
        ((TRACE,), "--gpus"),
        ((TRACE, "--gpus", 8, "--declared", "0.5"), "1 or more"),
        ((TRACE, "--gpus", 8, "--vc", "11cb49"), "11cb48"),
        ((TRACE, "--gpus", 8, "--policy", "fair"), "fifo"),
    ]:
        run = simulate(*arguments)
        assert run.returncode == 64 and says in run.stderr.lower(), (arguments, run.stderr)
    assert simulate("/no/such/trace.csv", "--gpus", 8).returncode == 69
