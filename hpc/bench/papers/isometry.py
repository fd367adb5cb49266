"""FroMax and NILE-Pro: Luo, Shapiro, Shi, Yang and Zhu, near-isometric linear embeddings."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hpc.bench.isometry.neighbors import TABLE_3
from hpc.bench.isometry.report import NAMES, final_rank, status_of
from hpc.bench.isometry.tables import TABLE_1, TABLE_2
from hpc.bench.papers.claims import (
    BETTER,
    CUT,
    NO_DATA,
    NOT,
    REPRODUCED,
    Claim,
    Document,
    Section,
    Theorem,
    compared,
    listed,
    together,
    whether,
)

BENCH = "scripts/bench isometry --part"

#: Deltas of Table 7.1 and of the other tables, the largest first.
DELTAS_1 = (0.4, 0.25, 0.1)
DELTAS_2 = (0.4, 0.2, 0.1)

Record = dict[str, Any]


def document(record: Record) -> Document:
    """All tables, figures and claims of the paper."""
    sections = [
        _first(record),
        _first_claims(record),
        _second_figure(record),
        _second(record),
        _second_claims(record),
        _third(record),
        _fourth_figure(record),
    ]
    return Document(
        "FroMax and NILE-Pro",
        "Luo, Shapiro, Shi, Yang, Zhu: practical algorithms for learning near-isometric linear "
        "embeddings. Published seconds: Intel i5-650 of 2010, 4 GB.",
        sections,
        list(THEORY),
    )


def _cells(rows: list[Record], *keys: str) -> dict[tuple[Any, ...], Record]:
    return {tuple(row[key] for key in keys): row for row in rows}


def _first(record: Record) -> Section:
    found = _cells(record["table_1"], "points", "wanted_delta", "method")
    claims = []
    for (points, delta), (rank, *seconds) in TABLE_1.items():
        place = f"Table 7.1, {points} images, δ = {delta}"
        mixed = found[points, delta, "numax"]["rank"]
        claims.append(_first_rank(record, place, points, delta, rank, mixed))
        for method, published in zip(("fromax", "nile-pro"), seconds, strict=True):
            row = found[points, delta, method]
            given, done = row["wanted_rank"], final_rank(row) is not None
            why = f"δ = {row['delta']:.3f} certified, {status_of(row)}"
            if given > rank:
                why += f"; at rank {given}, which NuMax needs for squares of mixed sides"
            claims.append(
                Claim(
                    f"{place}, {NAMES[method]}: rank given, seconds",
                    f"{rank}, {published}",
                    f"{given}, {row['seconds']:.2f}",
                    (REPRODUCED if given <= rank else NOT) if done else CUT,
                    why,
                )
            )
    return Section(
        "Table 7.1",
        f"{BENCH} table_1 --part one_square",
        "Images of 7 × 7 (60) and 14 × 14 (200) pixels. The paper does not say how large its "
        "squares are: seconds are those of squares of mixed sides at the rank that NuMax finds "
        "for them, ranks those of one size, as many images as published, at "
        f"{listed(sorted({r['side'] for r in record['one_square'] if r['images'] in (60, 200)}))} "
        "pixels.",
        claims,
    )


def _first_rank(
    record: Record, place: str, points: int, delta: float, rank: int, mixed: int
) -> Claim:
    """The rank that NuMax finds, where squares of one size have the published one between them."""
    ranks = {
        row["side"]: row["rank"]
        for row in record["one_square"]
        if row["images"] == points and row["wanted_delta"] == delta and final_rank(row)
    }
    low, high = min(ranks.values()), max(ranks.values())
    verdict = REPRODUCED if low <= rank <= high else BETTER if high < rank else NOT
    sides = listed(f"{found} (side {side:g})" for side, found in ranks.items())
    return Claim(f"{place}: rank by NuMax", f"{rank}", f"{sides}; {mixed} (mixed sides)", verdict)


def _first_claims(record: Record) -> Section:
    found = _cells(record["table_1"], "points", "wanted_delta", "method")

    def seconds(method: str, points: int) -> list[float]:
        return [found[points, delta, method]["seconds"] for delta in DELTAS_1]

    def told(values: list[float]) -> str:
        return listed(f"{value:.2f}" for value in values)

    claims = []
    for method, smaller in (("nile-pro", False), ("fromax", True)):
        both = {points: seconds(method, points) for points in (60, 200)}
        follow = [
            points
            for points, values in both.items()
            if all((a > b) == smaller for a, b in pairwise(values))
        ]
        holds = len(follow) == len(both)
        kind = "smaller" if smaller else "larger"
        claims.append(
            Claim(
                f"Abstract, §7.1: {NAMES[method]} converges faster for {kind} δ",
                f"for {kind} δ",
                f"s at δ = {listed(DELTAS_1)}: {'; '.join(map(told, both.values()))}",
                whether(holds),
                "" if holds else f"so with {listed(follow) or 'neither 60 nor 200'} images",
            )
        )
    small, large = (found[200, 0.1, method]["seconds"] for method in ("fromax", "nile-pro"))
    crossing = small < large
    claims.append(
        Claim(
            "Table 7.1: FroMax faster than NILE-Pro at 200 images, δ = 0.1",
            "{} and {} s".format(*TABLE_1[200, 0.1][1:]),
            f"{small:.2f} and {large:.2f} s",
            whether(crossing),
            "" if crossing else "NILE-Pro's exact steps on a line converge sooner here",
        )
    )
    pairs = [
        (a, b)
        for method in ("fromax", "nile-pro")
        for a, b in zip(seconds(method, 60), seconds(method, 200), strict=True)
    ]
    printed = [
        large / small
        for delta in DELTAS_1
        for small, large in zip(TABLE_1[60, delta][1:], TABLE_1[200, delta][1:], strict=True)
    ]
    claims.append(
        Claim(
            "§7.1: times grow with the number of images",
            f"{min(printed):.0f} to {max(printed):.0f} times from 60 to 200 images",
            f"{min(b / a for a, b in pairs):.0f} to {max(b / a for a, b in pairs):.0f} times",
            whether(all(a < b for a, b in pairs)),
        )
    )
    return Section(
        "§7.1: claims on Table 7.1", f"{BENCH} table_1", "Squares of mixed sides.", claims
    )


def _second_figure(record: Record) -> Section:
    rows = record["figure_2"]
    deltas = sorted({row["wanted_delta"] for row in rows})
    ranks = {name: _ranks(rows, name, deltas) for name in {row["method"] for row in rows}}
    cut = {
        name: sum(r["status"] == "TIME_LIMIT" for r in rows if r["method"] == name)
        for name in ranks
    }
    place = "Figure 7.2"
    curves = ("secant-pca", "numax", "fromax", "nile-pro")
    limit = max((r["seconds"] for r in rows if r["status"] == "TIME_LIMIT"), default=0.0)
    claims = [
        Claim("Figure 7.1: sample of 60 images, 16 × 16, squares and disks", "picture",
              "60 generated images of the same description", REPRODUCED)
    ]  # fmt: skip
    for name in curves:
        claims.append(
            Claim(
                f"{place}, curve of {NAMES[name]}: rank by δ",
                "curve, no figures printed",
                listed(
                    f"{rank} at {delta}" for delta, rank in zip(deltas, ranks[name], strict=True)
                ),
                CUT if cut[name] else REPRODUCED,
                f"{cut[name]} of {len(deltas)} runs ended after {limit:.0f} s" if cut[name] else "",
            )
        )
    least = all(
        own <= other
        for name in curves[:3]
        for own, other in zip(ranks["nile-pro"], ranks[name], strict=True)
    )
    worse = [
        delta
        for delta, a, b in zip(deltas[:2], ranks["fromax"], ranks["numax"], strict=False)
        if a >= b
    ]
    small = all(a < b for a, b in zip(ranks["fromax"][:2], ranks["numax"][:2], strict=True))
    pca = all(
        rank < principal
        for name in ("numax", "fromax")
        for rank, principal in zip(ranks[name], ranks["secant-pca"], strict=True)
    )
    claims += [
        Claim(f"{place}: NILE-Pro RA has the least rank", "at all δ",
              f"{'at' if least else 'not at'} all {len(deltas)} δ", whether(least)),
        Claim(f"{place}: FroMax RA does better at small δ", "beside NuMax RA",
              f"{listed(ranks['fromax'][:2])} and {listed(ranks['numax'][:2])} at δ = "
              f"{listed(deltas[:2])}", REPRODUCED if small else CUT if cut["fromax"] else NOT,
              "" if small else "its search for the least rank ends higher at "
              f"δ = {listed(worse)}; at larger δ it is lower"),
        Claim(f"{place}: NuMax RA and FroMax RA far below PCA", "at all δ",
              f"{'at' if pca else 'not at'} all {len(deltas)} δ", whether(pca)),
    ]  # fmt: skip
    return Section(
        "Figures 7.1 and 7.2",
        f"{BENCH} figure_2",
        "60 images of a square or a disk, 16 × 16; PCA of the secants.",
        claims,
    )


def _ranks(rows: list[Record], method: str, deltas: list[float]) -> list[int]:
    found = {row["wanted_delta"]: row["rank"] for row in rows if row["method"] == method}
    return [found[delta] for delta in deltas]


def _second(record: Record) -> Section:
    found = _cells(record["table_2"]["rows"], "wanted_delta", "points", "method")
    claims = []
    for (delta, points), methods in TABLE_2.items():
        for method, (rank, seconds) in methods.items():
            row = found[delta, points, method]
            final = final_rank(row)
            verdict = CUT if final is None else compared(final, str(rank), lower=True)
            claims.append(
                Claim(
                    f"Table 7.2, δ = {delta}, {points} images, {NAMES[method]}: rank, seconds",
                    f"{rank}, {seconds:,}",
                    f"{row['rank']}, {row['seconds']:.2f}",
                    verdict,
                    "" if final is not None else status_of(row),
                )
            )
    return Section(
        "Table 7.2",
        f"{BENCH} table_2 --data DIR",
        f"{record['table_2']['data']}, the first images of the digit 5 (the paper does not say "
        "which), the rank free, every map certified over all pairs.",
        claims,
    )


def _second_claims(record: Record) -> Section:
    found = _cells(record["table_2"]["rows"], "wanted_delta", "points", "method")
    keys = list(TABLE_2)
    ours = {key: {m: found[(*key, m)] for m in TABLE_2[key]} for key in keys}

    def count(of: str, less: str, than: str) -> tuple[int, int]:
        """In how many cells one method has less than another: published, and here."""
        field = ("rank", "seconds").index(of)
        cells = TABLE_2.values()
        published = sum(methods[less][field] < methods[than][field] for methods in cells)
        return published, sum(row[less][of] < row[than][of] for row in ours.values())

    def counted(place: str, cells: tuple[int, int], why: str = "") -> Claim:
        published, here = cells
        holds = here >= published
        return Claim(place, f"in {published} of {len(keys)} cells", f"in {here} of {len(keys)}",
                     whether(holds), "" if holds else why)  # fmt: skip

    slower = sum(
        found[0.1, points, "nile-pro"]["seconds"] > found[0.4, points, "nile-pro"]["seconds"]
        for points in (95, 200, 500)
    )
    large = sum(
        found[delta, 500, "fromax"]["seconds"] > found[delta, 95, "fromax"]["seconds"]
        for delta in DELTAS_2
    )
    above = count("rank", "numax", "fromax")
    newton = "NuMax's steps are Newton's here, on a small active set"
    claims = [
        Claim("Figure 7.3: sample of the images", "picture", record["table_2"]["data"], REPRODUCED),
        counted("§7.3: NILE-Pro RA faster than NuMax",
                count("seconds", "nile-pro", "numax"), newton),
        counted("§7.3: NILE-Pro RA finds a lower rank than NuMax",
                count("rank", "nile-pro", "numax")),
        counted("Abstract: FroMax RA faster than NuMax",
                count("seconds", "fromax", "numax"), newton),
        Claim("§7.3: FroMax RA's rank is above NuMax's at times", f"in {above[0]} of 9 cells",
              f"in {above[1]} of 9", REPRODUCED if above[1] else BETTER),
        Claim("§7.3: FroMax RA slower for larger sets", "at all δ, 95 to 500 images",
              f"at {large} of 3 δ", whether(large == 3)),
        Claim("§7.3: NILE-Pro RA slower at δ = 0.1 than at 0.4", "for all 3 sets",
              f"for {slower} of 3", whether(slower == 3)),
    ]  # fmt: skip
    return Section(
        "§7.3: claims on Table 7.2", f"{BENCH} table_2 --data DIR", "As for the table.", claims
    )


def _third(record: Record) -> Section:
    table = record["table_3"]
    found = _cells(table["rows"], "wanted_delta", "method", "wanted_rank")
    points, error = table["points"], table["unprojected"]
    claims = [
        Claim("§7.4: 60,000 training images, 20 × 20 pixels", "60,000", f"{points:,}",
              whether(points == 60_000)),
        Claim("§7.4: error of the nearest neighbor, unprojected", "3.47 %", f"{100 * error:.2f} %",
              compared(100 * error, "3.47", lower=True), "the paper's crop is not described"),
    ]  # fmt: skip
    seconds = {}
    for delta, (rank, *rest) in TABLE_3.items():
        errors, hours = rest[:2], rest[2:]
        for method, share, time in zip(("numax", "fromax"), errors, hours, strict=True):
            row = found[delta, method, rank]
            seconds[delta, method] = row["seconds"]
            verdict = compared(100 * row["error"], f"{100 * share:.2f}", lower=True)
            claims.append(
                Claim(
                    f"Table 7.3, δ = {delta}, rank {rank}, {NAMES[method]} CG: error, time",
                    f"{100 * share:.2f} %, {time} h",
                    f"{100 * row['error']:.2f} %, {row['seconds']:.0f} s",
                    verdict if row["reached"] else together([CUT, verdict]),
                    f"δ = {row['delta']:.3f} over {row['secants']:,} pairs, {status_of(row)}",
                )
            )
    faster = [delta for delta in TABLE_3 if seconds[delta, "fromax"] < seconds[delta, "numax"]]
    below = sum(found[d, m, r[0]]["error"] < error for d, r in TABLE_3.items() for m in NEIGHBORS)
    claims += [
        Claim("§7.4: FroMax CG significantly faster than NuMax CG", "at all δ: 0.4, 0.25, 0.1",
              f"at δ = {listed(faster) or 'none'}", whether(len(faster) == len(TABLE_3)),
              "both are quick here: NuMax's steps are Newton's"),
        Claim("Table 7.3: errors below that of the unprojected images", "6 of 6",
              f"{below} of 6", whether(below == 6),
              "" if below == 6 else "the unprojected error is lower here"),
    ]  # fmt: skip
    return Section(
        "Table 7.3",
        f"{BENCH} table_3 --data DIR",
        f"{table['data']}, the published ranks, one process; errors of one nearest neighbor on "
        "10,000 test images.",
        claims,
    )


#: Methods of Table 7.3.
NEIGHBORS = ("numax", "fromax")


def _fourth_figure(record: Record) -> Section:
    figure = record.get("figure_4_by_delta", {**record["figure_4"], "rows": []})
    found = _cells(figure["rows"], "wanted_delta", "method")
    deltas = sorted((delta for delta, method in found if method == "fromax"), reverse=True)
    tried = [(found[delta, "numax"], found[delta, "fromax"]) for delta in deltas]
    pairs = [pair for pair in tried if all(row["status"] == "CONVERGED" for row in pair)]
    ended = listed(pair[0]["wanted_delta"] for pair in tried if pair not in pairs)
    limit = f"NuMax was ended by the clock at δ = {ended}" if ended else ""
    ranks = listed(numax["rank"] for numax, _ in pairs)
    kept = "; ".join(
        listed(f"{100 * pair[place]['kept']:.0f}" for pair in pairs) for place in (0, 1)
    )
    wins = sum(fromax["kept"] >= numax["kept"] - 0.005 for numax, fromax in pairs)
    many = wins * 2 > len(pairs)
    claims = [
        Claim("§7.5: 4,000 GIST descriptors of LabelMe, 512 columns, 1,000 queries",
              "4,000; 1,000", f"{figure['data']}: {figure['points']:,}; {figure['queries']:,}",
              NO_DATA, "LabelMe's descriptors are not public"),
        Claim("Figure 7.4: neighbors kept by NuMax CG and FroMax CG", "curves, no figures printed",
              f"% kept at δ = {listed(pair[0]['wanted_delta'] for pair in pairs)}, ranks {ranks}: "
              f"{kept}", CUT if limit else REPRODUCED, limit),
        Claim("§7.5: FroMax CG keeps about as many or more at the same rank", "generally",
              f"at {wins} of {len(pairs)} ranks", whether(many) if len(pairs) > 1 else CUT,
              "" if many else "NuMax's map keeps more of them here"),
    ]  # fmt: skip
    return Section(
        "Figure 7.4",
        f"{BENCH} figure_4_by_delta --data DIR",
        "Scene-15 in place of LabelMe; 10 nearest neighbors; NuMax finds the rank for δ, FroMax "
        "has the same δ and that rank.",
        claims,
    )


SOLVERS = "plugins/isometry/test_solvers.py"
PARTS = "plugins/isometry/test_inner_parts.py"

THEORY = (
    Theorem("(2.1), (2.6)", "the isometry constant over all secants",
            ("framework/engines/secants/test_secant_bounds.py::"
             "test_the_interval_holds_the_constant_of_extended_precision",
             "framework/engines/secants/test_secants.py::"
             "test_the_worst_pairs_are_those_of_a_loop_over_all_pairs")),
    Theorem("(2.2)", "secants are normalized, coincident points left out",
            ("framework/engines/secants/test_secants.py::"
             "test_coincident_points_are_counted_and_close_ones_measured_without_cancellation",)),
    Theorem("(2.7)", "the least rank", ("plugins/isometry/test_certificates.py::"
            "test_no_linear_map_has_a_rank_below_the_bound_for_its_delta",),
            "NP-hard: a certified lower bound, and a search above it"),
    Theorem("(2.8)–(2.12)", "NuMax's semidefinite program",
            (f"{SOLVERS}::test_a_wanted_delta_is_reached_over_all_secants",
             f"{PARTS}::test_inner_solvers_solve_the_normal_equations",
             f"{SOLVERS}::test_numax_finds_the_least_nuclear_norm"),
            "`steps = \"published\"` solves the three subproblems in turn, the default L and q "
            "together; both are held against linear programs"),
    Theorem("(2.9)", "the map from the leading eigenvectors of P",
            ("plugins/isometry/test_certificates.py::"
             "test_a_truncated_map_is_the_nearest_of_its_rank_"
             "and_an_extended_one_keeps_its_rows",)),
    Theorem("(3.4)–(3.9)", "q- and P-steps (multipliers unscaled: z = A(P) + λ/β₁ − 1)",
            (f"{PARTS}::test_a_matrix_near_bounds_is_the_minimizer",)),
    Theorem("Algorithm 1", "FroMax ends where P and its factor agree",
            (f"{SOLVERS}::test_fromax_ends_where_its_matrix_and_its_factor_agree",)),
    Theorem("Algorithm 1", "FroMax to the letter but for the misprint: `steps = \"published\"`",
            (f"{PARTS}::test_fromax_as_published_takes_the_steps_of_algorithm_1",
             f"{PARTS}::test_steps_together_end_where_steps_as_published_lead",
             f"{SOLVERS}::test_steps_as_published_come_within_their_tolerance_of_delta")),
    Theorem("Theorem 4.2, (4.5)–(4.7)", "the proximal map by Moreau: projection to the ℓ₁ ball",
            (f"{PARTS}::test_the_l1_ball_projection_is_the_nearest_point",)),
    Theorem("Algorithm 2", "NILE-Pro's step on Ψ",
            (f"{PARTS}::test_the_step_of_nile_pro_is_the_minimizer_on_its_line",),
            "ω ← ω − (A(ΨᵀΨ) − q), without the printed β"),
    Theorem("Algorithm 3", "rank adjustment, one by one from a warm start",
            (f"{SOLVERS}::test_the_published_search_raises_the_rank_by_a_fifth_and_lowers_it_by_one",
             f"{SOLVERS}::test_every_adjustment_agrees_on_the_rank")),
    Theorem("Algorithm 4", "column generation ends when no secant violates",
            (f"{SOLVERS}::test_column_generation_from_few_points_ends_with_few_active_secants",)),
    Theorem("§5.2", "secants are generated, never stored",
            ("framework/engines/secants/test_secants.py::"
             "test_the_worst_pairs_are_those_of_a_loop_over_all_pairs",)),
    Theorem("§6", "ADMM converges at o(1/k) on some convex problems, and on classes of "
            "non-convex ones", note="cited there, claimed of neither method"),
    Theorem("§1.1", "Johnson–Lindenstrauss: M = O(log Q)", note="cited there"),
    Theorem("§8.2", "rank adjustment by the eigengap of P: `adjust = \"eigengap\"`",
            (f"{SOLVERS}::test_the_eigengap_is_where_eigenvalues_fall_by_the_largest_factor",
             f"{SOLVERS}::test_every_adjustment_agrees_on_the_rank")),
    Theorem("§8.2", "perturbations against local minima: `perturbations`",
            (f"{SOLVERS}::test_a_failed_attempt_is_repeated_from_its_map_with_noise",)),
    Theorem("§8.2", "rank adjustment and column generation together (left open there)",
            ("plugins/isometry/test_cutting_planes.py::"
             "test_a_search_over_subsets_ends_with_a_certificate_over_all_secants",)),
)  # fmt: skip
