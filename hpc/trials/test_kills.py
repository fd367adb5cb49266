"""Random kills and stops, resumed to the bit.

Every solver and objective on 1, 2 and 3 ranks, one of each family on 8; a kill is SIGKILL, a stop
SIGUSR1, at a random iteration or step of writing files, on a random rank.  See
``hpc/trials/killed_runs.py``.
"""

import json
import runpy
import sys
from pathlib import Path

import pytest

from thalweg.plugins import ObjectiveSpec, SolverSpec, plugins

RUNNER = str(Path(__file__).with_name("killed_runs.py"))

#: Kills of each case on a number of ranks, at most: some runs end before their event.
KILLS = {1: 3, 2: 1, 3: 1}

#: Cases that share a launch on several ranks, which the next kill interrupts.
GROUP = 10

#: Objectives that take Python objects, so that no configuration can name them.
PYTHON_ONLY = {"jax"}


#: Cases on as many ranks as a small cluster has, one of each family.
MANY = 8
OF_MANY = ("t-sne by slabs, lbfgs", "kdac, ism", "near-isometry, hinge-lbfgs", "mlp, hessian-free")


NAMES = list(runpy.run_path(RUNNER)["cases"]())


@pytest.mark.parametrize("first", range(0, len(NAMES), GROUP))
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_killed_runs_end_at_the_same_bits(trial, tmp_path, ranks, first):
    names = [name for name in NAMES[first : first + GROUP] if ranks > 1 or "slabs" not in name]
    kill_and_resume(trial, tmp_path, ranks, names, KILLS[ranks])


@pytest.mark.parametrize("seed", [0, 2, 6])
def test_killed_runs_on_many_ranks_end_at_the_same_bits(trial, tmp_path, seed):
    kill_and_resume(trial, tmp_path, MANY, list(OF_MANY), 1, seed)


def kill_and_resume(trial, tmp_path, ranks, names, most, seed=0):
    command = [sys.executable, RUNNER, str(tmp_path), str(seed), str(most), *names]
    kills = 0
    while True:
        done = trial.mpirun(ranks, command, seconds=1500)
        if done.returncode == 0:
            break
        # Nothing but the kill may end a run: neither an error nor a limit.
        assert "Traceback" not in done.stderr, done.stderr
        assert kills <= len(names) * most, done.stderr
        kills += 1
    lines = (tmp_path / "outcomes.jsonl").read_text().splitlines()
    outcomes = [json.loads(line) for line in lines]
    trial.cases(sum(one["attempts"] - 1 for one in outcomes))
    assert [one["case"] for one in outcomes] == names
    assert [one for one in outcomes if one["differs"]] == []


def test_no_solver_or_objective_is_left_out():
    mentioned = " ".join(NAMES)
    known = [*plugins().specs(ObjectiveSpec), *plugins().specs(SolverSpec)]
    missing = [spec.name for spec in known if spec.name not in mentioned]
    assert set(missing) <= PYTHON_ONLY
