"""Partial-Hessian strategies: the poster of Vladymyrov and Carreira-Perpiñán, in two scans."""

from __future__ import annotations

from statistics import median
from typing import Any

from hpc.bench.embedding.convergence import SHRINKING
from hpc.bench.embedding.homotopy import PAPER
from hpc.bench.embedding.strategies import reached
from hpc.bench.papers.claims import (
    BETTER,
    CUT,
    NOT,
    REPRODUCED,
    Claim,
    Document,
    Section,
    Theorem,
    listed,
    whether,
)

BENCH = "scripts/bench embedding --data DIR --part"

#: Seconds that the poster gave each random start, and each run on MNIST.
START_SECONDS, RUN_SECONDS = 20, 3600

#: Seconds of an evaluation in the poster's homotopy by GD, of 720 points.
PUBLISHED_EVALUATION = PAPER["GD"][1] / PAPER["GD"][0]

#: Why runs of t-SNE from the same point part.
GROWS = "; no minimum is near: its value falls as the map grows, as far as a run goes"

Record = dict[str, Any]


def document(record: Record) -> Document:
    """All tables, figures and claims of the poster; figures are in the second scan alone."""
    return Document(
        "Partial-Hessian poster",
        "Vladymyrov, Carreira-Perpiñán: partial-Hessian strategies for fast learning of nonlinear "
        "embeddings (2012); two scans, of which only the second has the experiments. Their axes "
        "are legible in part, and of the table's seconds two are not.",
        [
            _claims(record),
            _near(record["convergence"]),
            _starts(record["starts"]),
            _homotopy(record["homotopy"]),
            _large(record),
        ],
        list(THEORY),
    )


def _fewer(curves: dict[str, Any], strategy: str) -> float | None:
    """How many times fewer evaluations a strategy takes to the value where GD ends."""
    count = reached(curves[strategy], curves["GD"][-1][2])
    return None if count is None else curves["GD"][-1][0] / count


def _told(ratio: float | None) -> str:
    return "never" if ratio is None else f"{ratio:.1f}"


def _claims(record: Record) -> Section:
    random = record["convergence"]["random"]
    ratios = {name: _fewer(curves, "SD") for name, curves in random.items()}
    runs = record["homotopy"]["strategies"]
    gd, sd = runs["GD, steps shrink"], runs["SD, steps shrink"]
    homotopy = gd["evaluations"] / sd["evaluations"]
    bound = "at least " * (gd["status"] == "TIME_LIMIT")
    least = min([homotopy, *(ratio or 0.0 for ratio in ratios.values())])
    shares = [
        part["spectral direction"] / part["evaluation"]
        for part in record["costs"]["parts"]
        if part["threads"] == 1
    ]
    little = max(shares) <= 0.25
    claims = [
        Claim("Abstract, conclusions: SD is 1 to 2 orders of magnitude faster than traditional "
              "methods", "10 to 100 times",
              "GD/SD in evaluations: " + listed(f"{name} {_told(r)}" for name, r in ratios.items())
              + f" from a random start; homotopy {bound}{homotopy:.1f}",
              whether(least >= 10), "" if least >= 10 else "not in all of these"),
        Claim("Abstract: SD adds nearly no overhead to the gradient", "nearly none",
              f"{100 * min(shares):.0f} to {100 * max(shares):.0f} % of an evaluation with "
              f"{record['costs']['rows']:,} points", whether(little),
              "" if little else "the gradient itself is no longer a sum over all pairs but takes "
              "time in proportion to the points"),
    ]  # fmt: skip
    return Section(
        "Abstract and conclusions",
        f"{BENCH} convergence --part homotopy --part costs",
        "COIL-20 and MNIST; one thread; the homotopy with the line search of the authors' code.",
        claims,
    )


def _near(record: Record) -> Section:
    claims = [
        Claim("Data: COIL-20, 10 objects every 5 degrees", "N = 720, D = 16,384",
              f"{record['data']}: N = {record['rows']}", whether(record["rows"] == 720))
    ]  # fmt: skip
    for problem, curves in record["near a minimum" + SHRINKING].items():
        ends = {name: curves[name][-1][2] for name in PAPER}
        low, high = min(ends.values()), max(ends.values())
        same = high - low <= 1e-3 * abs(low)
        ratios = {name: _fewer(curves, name) for name in ("SD", "SD-")}
        ahead = all(ratio is not None and ratio >= 10 for ratio in ratios.values())
        growing = record["near a minimum"][problem]
        own = listed(f"{name} {_told(_fewer(growing, name))}" for name in ratios)
        claims += [
            Claim(f"Left figure, {problem}: all methods from X₀ near X∞ end at the same point",
                  "the same", f"values {low:.6g} to {high:.6g}", whether(same),
                  "" if same else _apart(ends) + GROWS * (problem == "t-SNE")),
            Claim(f"Left figure, {problem}: SD and SD− far ahead of GD",
                  "curves, no figures printed",
                  "evaluations to GD's end: " + listed(
                      f"{name} {_told(ratio)} times fewer" for name, ratio in ratios.items())
                  + f"; with this project's line search, whose steps may grow again, {own}",
                  whether(ahead), "" if ahead else "less than ten times"),
        ]  # fmt: skip
    return Section(
        "Figure: convergence from one start near a minimum",
        f"{BENCH} convergence",
        f"Perplexity 20; EE with λ = 100 and w⁻ the squared distances; the line search of the "
        f"authors' code; at most {record['evaluations']:,} evaluations. Which two problems the "
        "poster's panels show is illegible.",
        claims,
    )


def _apart(ends: dict[str, float]) -> str:
    """Which methods ended above the lowest value."""
    low = min(ends.values())
    above = [f"{name} {value:.6g}" for name, value in ends.items() if value > 1.001 * low]
    return f"higher after these evaluations: {listed(above)}"


def _starts(record: Record) -> Section:
    claims = []
    equal = START_SECONDS / PUBLISHED_EVALUATION
    for problem, strategies in record["problems"].items():
        ends = {
            name: median(run["objective"] for run in strategies[name])
            for name in PAPER  # the seven strategies of the poster
        }
        order = sorted(ends, key=lambda name: ends[name])
        count = len(strategies["SD"])
        evaluations = median(run["evaluations"] for run in strategies["GD"])
        enough = count >= 50 and evaluations >= equal
        first = order[0] in ("SD", "SD-")
        claims.append(
            Claim(
                f"Right figure, {problem}: values from random X₀",
                f"50 starts, {START_SECONDS} s each; no figures printed",
                f"{count} starts; medians " + listed(f"{name} {ends[name]:.4g}" for name in order),
                whether(first) if enough else CUT,
                ("" if first else f"{order[0]} is lower than SD in the median")
                if enough
                else f"{count} starts of {record['seconds']:g} s",
            )
        )
    return Section(
        "Figure: random starts",
        f"{BENCH} starts --seconds {record['seconds']:g} --starts {record['starts']}",
        f"{record['data']}, {record['rows']} points, {record['starts']} starts, the line search "
        f"{record['search']}. An evaluation by GD took {1e3 * PUBLISHED_EVALUATION:.0f} ms in the "
        f"poster's table: its {START_SECONDS} s are {equal:.0f} evaluations by GD, and as many are "
        "made here.",
        claims,
    )


def _homotopy(record: Record) -> Section:
    runs = record["strategies"]
    gd = runs["GD, steps shrink"]
    claims = []
    for name, (evaluations, seconds) in PAPER.items():
        run = runs.get(f"{name}, steps shrink", runs[name])
        cut = run["status"] == "TIME_LIMIT"
        verdict = BETTER if run["evaluations"] < evaluations else NOT
        last = run["by lambda"][-1][0]
        claims.append(
            Claim(
                f"Table, {name}: evaluations, seconds, times fewer evaluations than GD",
                f"{evaluations:,}, {'illegible' if seconds is None else f'{seconds:,}'}, "
                f"{PAPER['GD'][0] / evaluations:.1f}",
                f"{run['evaluations']:,}{'+' * cut}, {run['seconds']:.1f}, "
                f"{gd['evaluations'] / run['evaluations']:.1f}; value {run['objective']:.6g}",
                CUT if cut else verdict,
                f"ended after {run['seconds']:.0f} s, at λ = {last:.2g}" if cut else "",
            )
        )
    steps = [len(run["by lambda"]) for run in runs.values()]
    whole = max(steps) == 50
    claims += [
        Claim("50 values of λ from 1e-4 to 1e2, log-spaced", "50", f"{max(steps)}", whether(whole)),
        Claim("Figure: evaluations by λ", "curves, no figures printed",
              "[picture](embedding-homotopy.png)", REPRODUCED),
        Claim("Figure: seconds by λ", "curves, no figures printed",
              "[picture](embedding-homotopy.png)", REPRODUCED),
    ]  # fmt: skip
    return Section(
        "Table and figure: homotopy of the elastic embedding",
        f"{BENCH} homotopy",
        f"{record['data']}, {record['rows']} points; each λ to a relative decrease of 1e-6 or "
        f"{record['iterations']:,} iterations, with the line search of the authors' code (CG and "
        "L-BFGS have their own). GD's count, and what is compared with it, is a lower bound where "
        "GD was ended.",
        claims,
    )


def _large(record: Record) -> Section:
    large = record["large"]
    seconds = large["seconds"]
    published = PUBLISHED_EVALUATION * (large["rows"] / 720) ** 2
    hour = RUN_SECONDS / published
    whole = large["rows"] == 20_000 and "components" not in large["data"]
    claims = [
        Claim("Data: MNIST, perplexity 50, κ = 7", "N = 20,000, D = 784",
              f"N = {large['rows']:,}, {large['data']}",
              whether(whole), "" if whole else "not all of its rows and columns")
    ]  # fmt: skip
    for problem, curves in large["problems"].items():
        ends = {name: curves[name][-1][2] for name in PAPER}
        then = {name: _value_after(curves[name], _evaluations_of(name, hour)) for name in PAPER}
        order = sorted(then, key=lambda name: then[name])
        least = min(curves[name][-1][0] for name in PAPER)
        first = order[0] in ("SD", "SD-")
        claims.append(
            Claim(
                f"Figure, {problem}: one hour a method",
                "curves, no figures printed; the text prefers SD",
                f"after the poster's hour: {listed(f'{name} {then[name]:.4g}' for name in order)}; "
                f"after {seconds:g} s here: {_ordered(ends)}; beside them "
                + _ordered({name: c[-1][2] for name, c in curves.items() if name not in PAPER}),
                whether(first) if least >= hour else CUT,
                ("" if first else f"{order[0]} is lower than SD")
                if least >= hour
                else f"{seconds:g} s a run in place of an hour",
            )
        )
    claims += [
        Claim("Pictures: maps of the digits by t-SNE", "picture",
              "[picture](embedding-large-maps-t-sne.png), and of all "
              f"{record['rivals']['rows']:,} images [another](embedding-map.png)", REPRODUCED),
        Claim("Pictures: maps of the digits by EE", "picture",
              "[picture](embedding-large-maps-ee.png)", REPRODUCED),
    ]  # fmt: skip
    return Section(
        "Figures: MNIST, 20,000 images",
        f"{BENCH} large --seconds {seconds:g}",
        f"{seconds:g} s a run from one random start, no exaggeration; EE with λ = 100, equal w⁻. "
        f"At the poster's {1e3 * PUBLISHED_EVALUATION:.0f} ms for 720 points an evaluation of all "
        f"pairs of {large['rows']:,} took it {published:.0f} s, so that its hour was about "
        f"{hour:.0f} evaluations by GD, and of other methods as many fewer as their evaluations "
        f"took longer in its table; here each method had {_evaluations(large)}.",
        claims,
    )


def _ordered(values: dict[str, float]) -> str:
    """Names with their values, the lowest first."""
    return listed(f"{name} {values[name]:.4g}" for name in sorted(values, key=values.__getitem__))


def _evaluations_of(name: str, hour: float) -> float:
    """Evaluations of a method in the poster's hour, of which GD had so many."""
    evaluations, seconds = PAPER[name]
    return hour if seconds is None else hour * PUBLISHED_EVALUATION * evaluations / seconds


def _value_after(curve: list[list[float]], evaluations: float) -> float:
    """The value of a curve after so many evaluations."""
    return min(value for count, _, value in curve if count <= evaluations)


def _evaluations(large: Record) -> str:
    """How many evaluations the poster's methods had on MNIST."""
    counts = [curves[name][-1][0] for curves in large["problems"].values() for name in PAPER]
    return f"{min(counts):,.0f} to {max(counts):,.0f}"


DERIVATIVES = "plugins/embedding/test_derivatives.py"
DIRECTIONS = "plugins/embedding/test_preconditioners.py"
EIGENMAPS = "plugins/embedding/test_eigenmaps.py"
DESCENT = "plugins/descent/test_descent.py"

THEORY = (
    Theorem("Formulation", "E = E⁺ + λE⁻ and its table: s-SNE, t-SNE (misprinted), EE",
            (f"{DERIVATIVES}::test_gradient_and_capabilities_are_what_they_say",
             "plugins/embedding/test_more_objectives.py::"
             "test_normalized_objectives_are_kullback_leibler_divergences")),
    Theorem("Formulation", "LE and LLE: λ = 0 with quadratic constraints",
            (f"{EIGENMAPS}::test_eigenvectors_are_those_of_a_dense_solver",
             f"{EIGENMAPS}::test_lle_agrees_with_scikit_learn")),
    Theorem("Formulation", "SNE, a divergence for each point: objective `sne`",
            ("plugins/embedding/test_more_objectives.py::"
             "test_plain_sne_is_the_mean_divergence_of_the_points",
             f"{DERIVATIVES}::test_gradient_and_capabilities_are_what_they_say")),
    Theorem("Experiments", "SNE affinities of a given perplexity",
            ("plugins/embedding/test_affinities.py::test_every_row_has_the_wanted_perplexity",)),
    Theorem("Strategies", "∇²E = 4L ⊗ I + 8L^xx − 16λ vec(XL^q) vec(XL^q)ᵀ, and its weights",
            (f"{DERIVATIVES}::test_gradient_and_capabilities_are_what_they_say",)),
    Theorem("Strategies", "w^xx has a constant sign for i = j (not so for t-SNE: its positive part "
            "is taken)", (f"{DERIVATIVES}::"
            "test_convex_blocks_are_laplacians_and_have_the_diagonal_they_say",)),
    Theorem("Strategies", "B is positive definite",
            ("plugins/embedding/test_preconditioners.py::"
             "test_preconditioners_are_positive_definite_and_linear",)),
    Theorem("Table of B", "FP 4D⁺, DiagH, SD 4L⁺, SD− by linear CG",
            (f"{DIRECTIONS}::test_kappa_keeps_the_largest_weights_and_the_whole_degrees",
             "plugins/embedding/test_preconditioners.py::"
             "test_preconditioners_are_positive_definite_and_linear",
             f"{DIRECTIONS}::test_spectral_solves_with_the_laplacian",
             f"{DIRECTIONS}::test_partial_hessian_solves_with_attraction_and_repulsion")),
    Theorem("Spectral direction", "globally convergent from any start: each step lowers E, by "
            "Armijo's condition",
            (f"{DESCENT}::test_every_step_lowers_the_objective",
             f"{DESCENT}::"
             "test_an_accepted_point_meets_its_conditions_and_has_its_value_and_gradient"),
            "no test states convergence itself"),
    Theorem("Spectral direction", "constant, so computed once for all iterations and all λ",
            (f"{DESCENT}::test_a_constant_preconditioner_is_applied_once_per_iteration",
             f"{DIRECTIONS}::test_one_factorization_serves_all_of_a_homotopy")),
    Theorem("Spectral direction", "solved as published: to 1e-8 but for L-BFGS's H₀ (`residual`)",
            (f"{DIRECTIONS}::test_a_result_says_which_factorization_of_petsc_it_used",)),
    Theorem("Spectral direction", "κ from N (L⁺) to 0 (D⁺)",
            (f"{DIRECTIONS}::test_kappa_keeps_the_largest_weights_and_the_whole_degrees",)),
    Theorem("Spectral direction", "O(N³/2) for the Cholesky factor once, O(N²d) for the triangular "
            "systems, in place of O(N³d) an iteration",
            ("framework/engines/laplacian/test_laplacian.py::"
             "test_every_method_solves_any_graph",), "solved; no test counts operations"),
    Theorem("Box", "backtracking whose steps only shrink (the authors' code)",
            (f"{DESCENT}::test_without_growth_steps_only_shrink_until_the_objective_changes",)),
    Theorem("Conclusions", "new members of the family",
            ("plugins/embedding/test_pair_functions.py::test_a_family_of_ones_own_embeds",)),
)  # fmt: skip
