"""Cuts are added once, dropped when idle, and kept when they come back; brackets close."""

import os
import signal
from dataclasses import replace

import numba
import numpy as np
import pytest

import thalweg
from thalweg import Status
from thalweg.parallel import MPI
from thalweg_isometry.brackets import RankBracket, predicted_rank
from thalweg_isometry.cutting_planes import IDLE_ROUNDS, Cuts
from thalweg_isometry.hinge import HingeSearch
from thalweg_isometry.near_isometry import NearIsometry

PAIRS = np.array([[0, 1], [0, 3], [2, 4]])


def decaying(rows, columns=12):
    """Points whose features matter less and less."""
    points = np.random.default_rng(3).standard_normal((rows, columns))
    return points * np.exp(-np.arange(columns) / 4.0)


@pytest.fixture
def begun(digits, secants_of):
    """A hinge search, and its state where a run begins."""

    def run(**options):
        objective = NearIsometry(secants_of(digits[:30], MPI.COMM_SELF), 0.3, 8)
        solver = HingeSearch(**options)
        return solver, solver.init(objective, objective.initial_point(0))

    return run


def test_a_cut_that_is_long_far_inside_is_dropped_and_one_that_comes_back_stays():
    cuts = Cuts().added(PAIRS, np.ones(3), 5)
    distortions = np.array([0.4, -0.39, 0.01])
    for _ in range(IDLE_ROUNDS):
        cuts, _ = cuts.aged(distortions, 0.4, 5)
    np.testing.assert_array_equal(cuts.pairs, PAIRS[:2])
    cuts = cuts.added(PAIRS, np.ones(3), 5)
    for _ in range(2 * IDLE_ROUNDS):
        cuts, _ = cuts.aged(distortions, 0.4, 5)
    assert PAIRS[2].tolist() in cuts.pairs.tolist()


@pytest.mark.parametrize("first", [1, 6, 17, 40])
@pytest.mark.parametrize("least", [1, 11, 17, 38, 40])
def test_a_bracket_closes_on_the_least_rank_that_serves(first, least):
    bracket, rank, tried = RankBracket(top=40), first, []
    while not bracket.is_closed:
        tried.append(rank)
        bracket = bracket.after(rank, served=rank >= least)
        rank = bracket.next_rank() if not bracket.is_closed else rank
    assert bracket.served == least
    assert len(tried) == len(set(tried)) <= 14


def test_the_rank_is_predicted_an_eighth_above_a_power_of_the_number_of_points():
    points = [1000, 4000, 16_000]
    least = [10.0, 14.0, 19.6]  # 1.4 times the rank for 4 times the points
    assert predicted_rank(points, least, 64_000, 0.125) in range(30, 33)  # 1.125 * 27.4
    assert predicted_rank(points[:1], least[:1], 4000, 0.125) in range(15, 18)
    assert predicted_rank([1000, 4000], [11, 11], 16_000, 0.125) in range(12, 16)


def test_a_success_that_took_few_iterations_is_followed_by_a_large_step():
    bracket = RankBracket(top=100)
    slow, quick = (bracket.after(40, served=True, excess=excess) for excess in (0.05, 0.4))
    assert slow.next_rank() == 39
    assert quick.next_rank() in range(33, 36)  # half-way to 40 / 1.4
    assert quick.after(31, served=False).least_expected == 31.5
    assert HingeSearch().excess(60) > HingeSearch().excess(300) > 0.05


def test_an_attempt_fails_where_all_that_violates_is_a_cut_already(begun):
    """Its method calls them met, and a scan does not: rounds would go on for ever."""
    solver, state = begun(all_below=10**6)
    state = replace(state, psi=0.1 * state.psi).in_attempt(met=True)
    assert solver.separate(state)[1] == "failed"


@pytest.mark.ranks(1, 2)
def test_a_search_over_subsets_ends_with_a_certificate_over_all_secants(comm, solve):
    points = decaying(320, 16)
    options = {"smallest_subset": 40, "all_below": 0, "cuts_per_round": 2000}
    result = solve(points, 0.4, comm=comm, **options)
    assert result.status is Status.CONVERGED
    assert set(result.trace["points"]) >= {80.0, 320.0}
    if comm.size > 1:
        return
    assert abs(len(result.solution) - len(solve(points, 0.4, smallest_subset=0).solution)) <= 1


def test_the_rank_that_failed_is_noted_as_an_observation(digits, solve):
    result = solve(digits[:40], 0.3, max_evaluations=40)
    rank = result.metrics["rank"]
    assert any(f"no attempt at rank {rank - 1} or below" in note for note in result.notes)
    assert any("option 'max_evaluations'" in note for note in result.notes)


@pytest.mark.ranks(1, 2)
def test_effort_ends_the_search_with_the_certified_map(comm, solve, capfd, monkeypatch):
    monkeypatch.setattr("thalweg.driver.progress.SECONDS_BETWEEN_LINES", -1.0)
    options = {"comm": comm, "all_below": 0, "cuts_per_round": 300}
    whole = solve(decaying(120), 0.2, **options)
    short = solve(decaying(120), 0.2, effort=1e-3, progress=True, **options)
    rank = len(short.solution)
    assert short.evaluations < whole.evaluations
    assert any(f"rank {rank} is certified; the search below it" in note for note in short.notes)
    assert comm.rank > 0 or f"best_rank={rank}" in capfd.readouterr().err


@pytest.mark.ranks(1, 2)
def test_a_run_that_is_stopped_within_a_scan_ends_at_the_same_bits(
    comm, secants_of, folder, monkeypatch
):
    points = decaying(900)
    workers = comm.size * numba.get_num_threads()
    monkeypatch.setattr("thalweg_isometry.cutting_planes.PART", 0.4e6 / workers)
    within = []

    def stop(iterate):
        if iterate.state.progress.before and iterate.state.progress.part == 2 and not within:
            within.append(iterate.iteration)
            os.kill(os.getpid(), signal.SIGUSR1)

    def run(**options):
        objective = NearIsometry(secants_of(points, comm), 0.4, 11)
        return thalweg.minimize(objective, solver="hinge-lbfgs", smallest_subset=0, **options)

    whole = run()
    stopped = run(checkpoint=folder, callback=stop)
    assert stopped.status is Status.INTERRUPTED
    assert within == [stopped.iterations]
    resumed = run(checkpoint=folder, resume=True)
    assert resumed.status is whole.status is Status.CONVERGED
    np.testing.assert_array_equal(resumed.solution, whole.solution)
    for column in ("delta", "scanned", "active", "objective"):
        np.testing.assert_array_equal(resumed.trace[column], whole.trace[column])


@pytest.mark.parametrize("solver", ["secant-pca", "hinge-lbfgs"])
def test_a_search_that_scans_in_parts_ends_as_one_that_does_not(
    comm, secants_of, monkeypatch, solver
):
    points = decaying(300)

    def run():
        objective = NearIsometry(secants_of(points, comm), 0.4, None)
        result = thalweg.minimize(objective, solver=solver, smallest_subset=0)
        assert result.status is Status.CONVERGED
        assert objective.last_cuts is not None
        return result

    whole = run()
    monkeypatch.setattr("thalweg_isometry.cutting_planes.PART", 4e4)
    parts = run()
    assert parts.iterations > whole.iterations
    assert parts.metrics["delta"] <= 0.4
    assert parts.metrics["rank"] == whole.metrics["rank"]
