"""The note on saddle-free Hessian-free optimization (Arjovsky, 2015)."""

from __future__ import annotations

from typing import Any

from hpc.bench.papers.claims import (
    NOT,
    REPRODUCED,
    Claim,
    Document,
    Section,
    Theorem,
    listed,
    whether,
)

Record = dict[str, Any]

#: Errors of a step up to which products are compared.
ERRORS = (1e-2, 1e-4, 1e-6)


def document(record: Record) -> Document:
    """All claims of the note, which has no table and no figure."""
    return Document(
        "Saddle-free Hessian-free note",
        "Arjovsky: saddle-free Hessian-free optimization (2015). The note has neither tables nor "
        "figures; its numbers are estimates in the text.",
        [_directions(record), _training(record)],
        list(THEORY),
    )


def _products(rows: list[Record], way: str, condition: float, error: float) -> int | None:
    """Fewest products of a way, by default or tuned, for a step within an error."""
    fits = [
        int(row["products"])
        for row in rows
        if row["way"].startswith(way) and row["condition"] == condition and row["error"] <= error
    ]
    return min(fits, default=None)


def _directions(record: Record) -> Section:
    rows = record["directions"]
    conditions = sorted({row["condition"] for row in rows})
    ratios, cells = [], []
    for condition in conditions:
        for error in ERRORS:
            ode, own = (_products(rows, way, condition, error) for way in ("ode", "lanczos"))
            if ode and own:
                ratios.append(ode / own)
                cells.append(f"{ode:,} and {own} (condition {condition}, error {error:g})")
    counts = record["equation"]["counts"]
    inner, outer = (_by_size(counts, key) for key in ("iterations", "steps"))
    second = [row["second step"] / row["definite"] for row in counts]
    claims = [
        Claim("Inner conjugate gradients converge in a constant number of iterations",
              "about 20, independent of the number of parameters", *_constant(inner, 20)),
        Claim("RKF45 takes a constant number of iterations",
              "about 40, independent of the size", *_constant(outer, 40)),
        Claim("The algorithm in the worst case beside HF", "about 10 times slower",
              f"{min(ratios):.0f} to {max(ratios):.0f} times the products of Lanczos, which like "
              f"HF takes one per iteration: {'; '.join((cells[0], cells[-1]))}",
              REPRODUCED if max(ratios) <= 20 else NOT,
              "" if max(ratios) <= 20 else "40 steps of 6 stages, each with 20 iterations of two "
              "products, are by themselves some 10,000 products"),
        Claim("The second step (CG on H²) costs as much as HF", "roughly the same time",
              f"{min(second):.1f} to {max(second):.1f} times the products of CG with the definite "
              "matrix of the same spectrum", whether(max(second) <= 2),
              "" if max(second) <= 2 else "H² has the square of its condition, and takes two "
              "products"),
    ]  # fmt: skip
    return Section(
        "The two steps of the algorithm",
        "scripts/bench saddlefree --part directions --part equation",
        "2,000 variables, eigenvalues spread evenly in the logarithm, 30 % negative, no damping; "
        "the equation with its default or best inner accuracy; iterations of "
        f"{listed(sorted({row['size'] for row in counts}))} variables.",
        claims,
    )


def _training(record: Record) -> Section:
    curves = record["escape"]
    leaves = [name for name, found in curves.items() if _leaves(found["curves"], "saddle-free")]
    stays = [name for name, found in curves.items() if not _leaves(found["curves"], NEWTON)]
    training = record["training"]["autoencoder-digits"]
    own, hf = (_per_update(training["runs"][name]) for name in ("saddle-free", "hessian-free"))
    ends = {name: _end(training["runs"][name]) for name in ("saddle-free", "hessian-free")}
    seconds = training["runs"]["hessian-free"]["seconds"]
    seeds = len(training["runs"]["hessian-free"]["curves"])
    claims = [
        Claim("Title: the step leaves saddles where Newton's stays",
              "no figure", f"left in {len(leaves)} of {len(curves)} problems; Newton's stays in "
              f"{len(stays)} of {len(curves)}",
              whether(len(leaves) == len(stays) == len(curves))),
        Claim("A saddle-free update beside one of HF, by Lanczos in place of the two steps",
              "about 10 times slower in the worst case", f"{own / hf:.1f} times the core-seconds "
              f"({own:.3f} and {hf:.3f})", whether(own / hf <= 10)),
        Claim("No need of the Gauss–Newton matrix: the Hessian serves", "no figure",
              f"training error after {seconds:g} core-seconds {ends['saddle-free']:.3g} "
              f"(Hessian), {ends['hessian-free']:.3g} (HF)",
              whether(ends["saddle-free"] <= ends["hessian-free"]),
              "" if ends["saddle-free"] <= ends["hessian-free"] else
              "it trains, but HF on Gauss–Newton products is lower in the same time"),
        _by_equation(record["equation"]["training"]),
    ]  # fmt: skip
    return Section(
        "Saddles and training",
        "scripts/bench saddlefree --part escape --part training --problem autoencoder-digits "
        f"--clock {training['setting']['clock']} --seconds {seconds:g} --seeds {seeds}",
        f"Problems: {listed(curves)}; network: {training['setting']['description']}, "
        f"{training['setting']['data']}, at most 100 inner steps, curvature from a quarter of the "
        "rows.",
        claims,
    )


def _by_size(counts: list[Record], key: str) -> dict[tuple[float, float], list[float]]:
    """A count by size, for each condition and tolerance; of iterations the mean over stages."""
    found: dict[tuple[float, float], list[float]] = {}
    for row in counts:
        value = row[key][1] if key == "iterations" else row[key]
        found.setdefault((row["condition"], row["tolerance"]), []).append(float(value))
    return found


def _constant(found: dict[tuple[float, float], list[float]], printed: int) -> tuple[str, str, str]:
    """What was counted, and whether it depends on the size and is about what was printed."""
    ranges = [
        f"{_range(values)} (condition {condition:g}, error {tolerance:g})"
        for (condition, tolerance), values in found.items()
    ]
    constant = all(max(values) <= 1.5 * min(values) for values in found.values())
    near = min(map(min, found.values())) <= printed <= max(map(max, found.values()))
    why = "" if constant else "grows with the number of variables"
    return listed(ranges), whether(constant and near), why or "it grows with the condition"


def _range(values: list[float]) -> str:
    """The least and the most, or the one that both round to."""
    return " to ".join(dict.fromkeys((f"{min(values):.0f}", f"{max(values):.0f}")))


def _by_equation(training: Record) -> Claim:
    """Training by the two steps, beside Hessian-free optimization for the same time."""
    cells, ratios, lower = [], [], []
    for name, network in training["networks"].items():
        own, hf = (
            network["runs"][method]["curve"] for method in ("saddle-free, equation", "hessian-free")
        )
        ratios.append((own[-1][0] / own[-1][1]) / (hf[-1][0] / hf[-1][1]))
        lower.append(own[-1][3] <= hf[-1][3])
        cells.append(
            f"{name}: {own[-1][1]:.0f} updates, {own[-1][2]:,} products, value {own[-1][3]:.3g} "
            f"(HF {hf[-1][1]:.0f}, {hf[-1][2]:,}, {hf[-1][3]:.3g})"
        )
    return Claim(
        "Training by the note's own two steps",
        "a usable algorithm, about 10 times slower than HF",
        f"an update takes {min(ratios):.0f} to {max(ratios):.0f} times the seconds of HF's; in "
        f"{training['seconds']:g} s {'; '.join(cells)}",
        whether(all(lower) or max(ratios) <= 20),
        "" if all(lower) or max(ratios) <= 20 else "an update takes thousands of products",
    )


NEWTON = "newton (exact)"


def _leaves(curves: dict[str, list[list[float]]], method: str) -> bool:
    """Whether a method makes 99.9 % of the way to the lowest value that any method found."""
    lowest = min(value for curve in curves.values() for _, value in curve)
    first = curves["saddle-free"][0][1]
    return any(value <= lowest + 1e-3 * (first - lowest) for _, value in curves[method])


def _per_update(run: Record) -> float:
    """Core-seconds of an update, over all seeds."""
    ends = [curve[-1] for curve in run["curves"]]
    return float(sum(end[0] for end in ends) / sum(end[2] for end in ends))


def _end(run: Record) -> float:
    """The last training error, a mean over seeds."""
    return float(sum(curve[-1][3] for curve in run["curves"]) / len(run["curves"]))


ABSOLUTE = "plugins/saddlefree/test_absolute.py"

THEORY = (
    Theorem("(1)", "Δθ = −|H|⁻¹∇f",
            (f"{ABSOLUTE}::test_every_way_agrees_with_a_dense_eigendecomposition",)),
    Theorem("(2), (3)", "H² Δθ = −|H|∇f, in two steps",
            (f"{ABSOLUTE}::test_every_way_agrees_with_a_dense_eigendecomposition",),
            "the test goes over the equation's way too"),
    Theorem("R{·}", "products Hv at the cost of a few gradients, H²v by two of them",
            ("plugins/saddlefree/test_networks.py::test_derivatives_agree_with_differences",
             "plugins/saddlefree/test_networks.py::"
             "test_operations_are_those_of_the_products_of_matrices")),
    Theorem("(4)", "the initial value problem ends at A^(1/2) v",
            (f"{ABSOLUTE}::test_every_way_agrees_with_a_dense_eigendecomposition",
             f"{ABSOLUTE}::"
             "test_lanczos_needs_at_most_130_products_where_the_equation_needs_thousands")),
    Theorem("RKF45", "convergence where the norm of H² is below 1",
            note="products are scaled by a bound of Lanczos and scaled back"),
    Theorem("Damping", "|H| is kept regular",
            (f"{ABSOLUTE}::test_a_singular_hessian_without_damping_is_refused",
             f"{ABSOLUTE}::test_one_basis_serves_every_damping_without_another_product")),
    Theorem("(1)", "|H| in the metric of a preconditioner, as of `spectral`",
            (f"{ABSOLUTE}::test_a_preconditioner_is_the_metric_of_the_absolute_value",
             "plugins/saddlefree/test_saddle_free.py::"
             "test_only_lanczos_takes_a_preconditioner_and_none_is_chosen_by_default"),
            "`saddle-free` with a preconditioner; the note has none"),
    Theorem("Saddles", "the step leaves a saddle to which Newton's converges",
            ("plugins/saddlefree/test_saddle_free.py::"
             "test_saddle_free_leaves_where_newton_converges_to_the_saddle",
             "plugins/saddlefree/test_saddle_free.py::"
             "test_negative_curvature_is_followed_where_no_value_shows_the_gradient")),
    Theorem("[Martens 2010]", "HF: truncated CG, damping and backtracking",
            ("plugins/saddlefree/test_saddle_free.py::"
             "test_truncated_cg_predicts_the_undamped_model_at_every_kept_iterate",
             "plugins/saddlefree/test_saddle_free.py::test_truncated_cg_stops_when_progress_is_slow")),
)  # fmt: skip
