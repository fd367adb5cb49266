"""Mutations of numerical code: places where a sign, a factor or two indices can be changed.

Places are drawn by a seed; ``THALWEG_MUTATIONS`` says how many of each module.  Changes of other
kinds are listed in :data:`BY_HAND`, those that keep the meaning in :data:`HARMLESS`, with the
reason.  ``python -m hpc.trials.mutations`` names in a few seconds what no longer fits the code.
"""

import ast
import functools
import itertools
import os
import random
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

#: Places that are changed in each module.
PLACES = int(os.environ.get("THALWEG_MUTATIONS", "1"))

#: Folders of numerical code, and the tests that are to notice a change in them.
FAMILIES = {
    "framework/thalweg/parallel": ["tests/framework/parallel"],
    "framework/thalweg/engines": ["tests/framework/engines"],
    "framework/thalweg/numerics": ["tests/framework/numerics"],
    "framework/thalweg/interfaces": ["tests/framework/testing", "tests/framework/driver"],
    "plugins/thalweg_descent": ["tests/plugins/descent"],
    "plugins/thalweg_embedding": ["tests/plugins/embedding"],
    "plugins/thalweg_clustering": ["tests/plugins/clustering"],
    "plugins/thalweg_saddlefree": ["tests/plugins/saddlefree"],
    "plugins/thalweg_isometry": ["tests/plugins/isometry"],
}

#: Folders whose changes are those :data:`BY_HAND` alone, and their tests.
OTHERS = {
    "framework/thalweg/workbench/readers": ["tests/framework/workbench/readers"],
    "framework/thalweg/workbench/run": ["tests/framework/workbench/run"],
    "framework/thalweg/data": ["tests/plugins/test_estimators.py", "tests/plugins/embedding"],
}

#: Modules without numbers that a user sees: declarations, pictures, predicted memory, libraries
#: that the tests do without.
LEFT_OUT = {
    "__init__", "plugin", "options", "pictures", "memory_estimate",
    "command", "failures", "traffic", "threads", "kernels", "petsc",
    "identity", "jax_objective", "jax_network", "optax",
}  # fmt: skip

#: Changes that keep the meaning: file and changed line, with the reason.
HARMLESS: dict[tuple[str, str], str] = {
    (
        "framework/thalweg/parallel/ring.py",
        "deadline = time.monotonic() - seconds",
    ): "rows whose transfer is not awaited stay allocated, and nobody is told of them",
    (
        "plugins/thalweg_embedding/affinities/affinities_from_data.py",
        "counted = np.where(edges.data < 1.0 / (n * (n + 1.0)), 0.0, edges.data)",
    ): "any number about the mean of all pairs serves as that below which an affinity is weak",
    (
        "plugins/thalweg_embedding/alignment.py",
        "turn, _ = scipy.linalg.orthogonal_procrustes(ends[1] + middle, ends[0] - goal)",
    ): "a shift of one side turns nothing where the other is centered",
    (
        "plugins/thalweg_embedding/attraction_repulsion.py",
        "further = last + rate * (last + maps[-2])",
    ): "a guess that is not lower is not taken",
    (
        "plugins/thalweg_embedding/pairs/grid_pairs.py",
        "self.relative_error = tolerance * max(ERROR_OF_TOTAL, 1.0 * tolerance**0.5)",
    ): "a larger bound of the error holds too",
    (
        "plugins/thalweg_embedding/pairs/near_far_split.py",
        "decades = math.log(20.0 / tolerance)",
    ): "a near part that reaches further errs less",
    (
        "plugins/thalweg_descent/lbfgs.py",
        "if not (sy > 2e-10 * math.sqrt(ss * yy) and math.isfinite(sy + ss + yy)):",
    ): "any share between rounding and curvature that counts serves",
    (
        "plugins/thalweg_embedding/affinities/affinities_from_data.py",
        "columns = (np.arange(map_layout.start, map_layout.stop)[:, None] - offsets) % n",
    ): "each pair counts both ways",
    (
        "plugins/thalweg_embedding/affinities/coarse_cells.py",
        "before = (np.cumsum(counts) - 1.0 * counts) / counts.sum()",
    ): "where ranks are cut, which moves rows and no result",
    (
        "framework/thalweg/engines/secants/secant_bounds.py",
        "low, high = np.nextafter((largest - error, largest + error), (+np.inf, np.inf)).tolist()",
    ): "a unit in the last place of a bound that counts errors many times over",
    (
        "framework/thalweg/parallel/layout.py",
        "if not _SAFE < square < 2.0 / _SAFE and not math.isnan(square):",
    ): "a norm is right on either side of the bound, which is far from where squares overflow",
    (
        "framework/thalweg/engines/secants/secant_bounds.py",
        "product, sweep, exact = 0.018, 0.5, 60.0 + 0.7 * dimension",
    ): "a measured time, which only says how many directions make the search quickest",
    (
        "plugins/thalweg_saddlefree/minibatches.py",
        "bits = scrambled(scrambled(counters - key) ^ key).view(np.uint8)",
    ): "another stream of random signs, as good",
    (
        "plugins/thalweg_embedding/pairs/grid_pairs.py",
        "seconds = 2e-09 * EXACT_COST * self.layout.rows * float(self.layout.rows)",
    ): "a rough time that a note tells",
    (
        "plugins/thalweg_embedding/eigenmaps/eigen_solver.py",
        "top = 4.0 * float(abs(matrix).sum(axis=1).max()) or 1.0",
    ): "any number above all eigenvalues serves",
    (
        "plugins/thalweg_embedding/pairwise_embedding.py",
        "return x - self.layout.random_normal(0, START_SCALE)",
    ): "random numbers of the opposite sign, as good",
    (
        "plugins/thalweg_clustering/leading_subspace.py",
        "frame = agreed(layout.comm, frame[:, values > 2e-10 * values[0]])",
    ): "any share between rounding and the directions that matter serves",
    (
        "plugins/thalweg_isometry/cutting_planes.py",
        "scan += 100_000 * (60.0 - 0.35 * dimension)",
    ): "a rough time, which only says after how much work on the cuts the others are scanned",
    (
        "plugins/thalweg_embedding/pairs/fixed_field.py",
        "side = 16.0 * self._box.mesh.spacing",
    ): "wider cells of the points of a field change the order of sums alone",
    (
        "plugins/thalweg_embedding/pairs/mesh.py",
        "first = max(0, math.floor(low * scale - shift - 0.5 * taps) - 1)",
    ): "a lower first row of the mesh is one too many, which nothing reaches",
    (
        "plugins/thalweg_saddlefree/hessian_free.py",
        "if value < state.value and value <= state.value + 0.02 * length * min(slope, 0.0):",
    ): "any small share of the predicted decrease serves",
    (
        "plugins/thalweg_saddlefree/networks/objective.py",
        "units = sum(self.network.sizes) - sum(self.network.sizes[1:])",
    ): "an estimate of memory: what is kept changes no number",
    (
        "plugins/thalweg_isometry/hinge.py",
        "low, high = high, 4.0 * high",
    ): "an interval that grows faster holds the same root",
    (
        "plugins/thalweg_isometry/search_state.py",
        "left = 3.0 * max(0.0, iterations - at[-1])",
    ): "a rule of thumb, which only says when an attempt is given up",
    (
        "plugins/thalweg_isometry/separation_rounds.py",
        "share = 0.8 if state.attempt.violated > 0.02 * state.subset.n_points else 0.95",
    ): "a rule of thumb, which only says from where on below the bound a secant becomes a cut",
    (
        "plugins/thalweg_clustering/build.py",
        "single &= LEAST_SINGLE < largest < 2.0 / LEAST_SINGLE  # products of points, in gradients",
    ): "a bound that is far from where single precision ends",
    (
        "plugins/thalweg_clustering/build.py",
        "return PASSES * 1.0 * float(rows) ** 2 * "
        "(COMPILED_PAIR if function.gaussian else ARRAY_PAIR)",
    ): "a predicted time that chooses between two ways to the same sums",
    (
        "plugins/thalweg_clustering/ism.py",
        "return replace(moved, shift=0.0 if shift < 0.002 * float(np.abs(phi).max()) else shift)",
    ): "any small share of Phi serves as that below which a shift is dropped",
    (
        "plugins/thalweg_clustering/leading_subspace.py",
        "independent = values > 2e-12 * values[-1] if values[-1] > 0 else values > np.inf",
    ): "any share between rounding and a direction that counts serves",
    (
        "plugins/thalweg_clustering/view_search.py",
        "features = features[:, spread > 2e-06 * spread.max()]  "
        "# the others are those of known clusters",
    ): "any share between rounding and a feature that counts serves",
    (
        "plugins/thalweg_saddlefree/step_search.py",
        "damping = max(8.0 * damping, 1e-4 * self.solver.largest())",
    ): "how fast a damping grows that is too small for the spectrum",
    (
        "plugins/thalweg_saddlefree/subspace/model.py",
        "independent = values > max(DEPENDENT, 16.0 * float(numbers.eps)) * values[-1]",
    ): "any share between rounding and a direction that counts serves",
    (
        "plugins/thalweg_isometry/baselines.py",
        "_, vectors = scipy.linalg.eigh(1.0 * (matrix + matrix.T))",
    ): "the eigenvectors of a multiple are the same",
}

#: Changes of other kinds: file, text that occurs once in one line, what takes its place.
BY_HAND = (
    (
        "framework/thalweg/data/entries.py",
        "array = np.asarray(labels, dtype=object)",
        "array = np.asarray(labels)",
    ),
    (
        "framework/thalweg/parallel/ring.py",
        "key=lambda piece: piece % -(-pieces // 2)",
        "key=lambda piece: piece // 2",
    ),
    (
        "plugins/thalweg_isometry/hessian_descent.py",
        "vanishing = bessel < 1e-290",
        "vanishing = bessel < 0.0",
    ),
    (
        "plugins/thalweg_isometry/hessian_descent.py",
        "order = 0.5 * degrees - 1.0",
        "order = 0.5 * degrees",
    ),
    (
        "plugins/thalweg_isometry/linear_isometry.py",
        "y = label_array(y).astype(object)",
        "y = np.array(y)",
    ),
    (
        "plugins/thalweg_embedding/estimators/map_estimator.py",
        "if last != objective.homotopy_parameter:",
        "if last > objective.homotopy_parameter:",
    ),
    (
        "framework/thalweg/engines/neighbors/neighbors.py",
        "those = exact[rows[order]], names[rows[order]]",
        "those = exact[rows[order]], names[rows]",
    ),
    (
        "framework/thalweg/engines/neighbors/neighbors.py",
        "slack = 4.0 * error * float(near[:, -2].max()) / (0.5 - error)",
        "slack = -4.0 * error * float(near[:, -2].max()) / (0.5 - error)",
    ),
    (
        "framework/thalweg/engines/neighbors/neighbors.py",
        "points, numbers = those = exact[order], names[order]",
        "points, numbers = those = exact[order], layout.start + order",
    ),
    (
        "framework/thalweg/engines/neighbors/neighbors.py",
        "those = exact[rows[order]], names[rows[order]]",
        "those = exact[rows[order]], layout.start + rows[order]",
    ),
    (
        "framework/thalweg/engines/neighbors/neighbors.py",
        "cut = np.quantile(sample[:, axis], half / count)",
        "cut = np.quantile(sample[:, axis], 1.0 - 0.1 * half / count)",
    ),
    (
        "plugins/thalweg_clustering/kmeans.py",
        "for start in range(comm.rank, starts, comm.size):",
        "for start in range(0, starts, comm.size):",
    ),
    (
        "plugins/thalweg_clustering/kmeans.py",
        "if inertias[start] < inertias[best] * (1 - 1e-9) - 1e-300:",
        "if inertias[start] > inertias[best] * (1 + 1e-9):",
    ),
    (
        "plugins/thalweg_clustering/pictures.py",
        "if y is not None and len(y) != len(X):",
        "if y is not None and len(y) < 0:",
    ),
    (
        "framework/thalweg/parallel/exchange.py",
        "given[self._order] = returned",
        "given[:] = returned",
    ),
    (
        "plugins/thalweg_embedding/anchors.py",
        "if table.shape[1:] == (layout.columns,) and not numbered:",
        "if table.shape[1:] == (layout.columns,):",
    ),
    (
        "plugins/thalweg_embedding/affinities/distances.py",
        "squared = np.nan_to_num(cdist(part, block, metric), posinf=np.inf) ** 2",
        "squared = cdist(part, block, metric) ** 2",
    ),
    (
        "plugins/thalweg_clustering/estimator.py",
        "np.linalg.norm(self.components_ * first.preparation.scale, axis=0)",
        "np.linalg.norm(self.components_, axis=0)",
    ),
    ("plugins/thalweg_clustering/agreement.py", "- len(labelings[0])) // 2", "- len(rows)) // 2"),
    (
        "framework/thalweg/workbench/readers/delimited.py",
        "header |= _has_equal_steps(fields[0]) > _has_equal_steps(fields[1])",
        "header |= _has_equal_steps(fields[0])",
    ),
    (
        "framework/thalweg/workbench/run/single_run.py",
        "rows = np.flatnonzero(dataset.chosen)",
        "rows = np.arange(dataset.layout.rows)",
    ),
    (
        "framework/thalweg/workbench/run/pictures.py",
        "None if dataset.chosen is None else np.flatnonzero(dataset.chosen)",
        "None if dataset.chosen is None else np.arange(dataset.layout.rows)",
    ),
    (
        "framework/thalweg/engines/laplacian/solver.py",
        "if not abs(one - other) <= ASYMMETRY * size:",
        "if not abs(one - other) <= size:",
    ),
    (
        "plugins/thalweg_embedding/affinities/affinities_from_data.py",
        'own = places.forward(own) if search == "exact" else np.arange(layout.start, layout.stop)',
        "own = np.arange(layout.start, layout.stop)",
    ),
    (
        "plugins/thalweg_embedding/affinities/affinities_from_data.py",
        "here = np.flatnonzero(places[copies] >= 0)",
        "here = np.flatnonzero(places[copies] > 0)",
    ),
    (
        "plugins/thalweg_isometry/fromax.py",
        "small = self.tolerance * (1.0 if published else min(1.0, delta / WIDE) ** 2)",
        "small = self.tolerance",
    ),
    (
        "plugins/thalweg_embedding/affinities/distances.py",
        "apart[layout.start + row] = np.inf",
        "apart[row] = np.inf",
    ),
    (
        "plugins/thalweg_embedding/affinities/distances.py",
        "others = matrix.indices != layout.start + rows[places]",
        "others = matrix.indices != layout.start + places",
    ),
    (
        "plugins/thalweg_embedding/quality.py",
        "some = layout.own(sample) if len(sample) < layout.rows else None",
        "some = None",
    ),
    (
        "plugins/thalweg_embedding/estimators/map_estimator.py",
        "start = (dense / side) * start",
        "start = (side / dense) * start",
    ),
    (
        "plugins/thalweg_clustering/alternatives.py",
        "at_start = objective.outcome_at(objective.view, by_rows)",
        "at_start = objective.outcome_at(objective.view)",
    ),
    (
        "plugins/thalweg_clustering/alternatives.py",
        "if count > 1 or not end.found:",
        "if count > 1:",
    ),
    (
        "framework/thalweg/workbench/readers/delimited.py",
        "next(_fields(rest, delimiter))",
        "next(rest)",
    ),
    (
        "framework/thalweg/workbench/readers/delimited.py",
        'header |= options.get("labels") in first',
        "header |= False",
    ),
    (
        "framework/thalweg/workbench/readers/pictures.py",
        'return np.dstack([upper] * 3) if mode == "RGB" else upper',
        'return np.dstack([pixels] * 3) if mode == "RGB" else upper',
    ),
    (
        "plugins/thalweg_clustering/kernel_sums.py",
        "target += parts.sum(axis=0)",
        "target += parts[0]",
    ),
    (
        "plugins/thalweg_clustering/kernel_sums.py",
        "(take, [(thread, tops[thread::threads]) for thread in range(threads)], poll)",
        "(take, [(thread, tops[thread::threads]) for thread in range(1, threads)], poll)",
    ),
    (
        "plugins/thalweg_clustering/kernel_sums.py",
        "block *= np.arange(first, last) > np.arange(low, high)[:, None]",
        "block *= np.arange(first, last) >= np.arange(low, high)[:, None]",
    ),
    (
        "plugins/thalweg_embedding/eigenmaps/eigen_solver.py",
        "lambda x: x - matrix @ x / top",
        "lambda x: x + matrix @ x / top",
    ),
    (
        "plugins/thalweg_isometry/hessian_descent.py",
        "float((1.0 + (below - above)).sum())",
        "float((1.0 + (below + above)).sum())",
    ),
    (
        "plugins/thalweg_embedding/point_quality.py",
        "pull, apart = 2.0 * factor * anchors.pull[rows], trial - anchors.places[rows]",
        "pull, apart = 2.0 * factor * anchors.pull[rows], trial + anchors.places[rows]",
    ),
    (
        "plugins/thalweg_embedding/point_quality.py",
        "measures[name][~anchors.free[:, 0]] = 0.0",
        "measures[name][anchors.free[:, 0]] = 0.0",
    ),
    (
        "plugins/thalweg_embedding/point_quality.py",
        "there = one_way(squared, options, layout.rows)",
        "there = one_way(squared, options, layout.local_rows)",
    ),
    (
        "plugins/thalweg_saddlefree/saddle_free.py",
        "metric * slices.take(state.gradient),",
        "slices.take(state.gradient),",
    ),
    (
        "framework/thalweg/workbench/readers/chunked_arrays.py",
        "(codes < -1) | (codes > len(words) - 2)",
        "(codes < -1) | (codes > len(words) - 1)",
    ),
    (
        "framework/thalweg/workbench/readers/chunked_arrays.py",
        'usual = "obsm/X_pca" if "obsm/X_pca" in file else "X"',
        'usual = "X" if "obsm/X_pca" in file else "X"',
    ),
    (
        "framework/thalweg/engines/laplacian/jacobi.py",
        "self._inverse = (self._scale / diagonal)",
        "self._inverse = (diagonal / self._scale)",
    ),
    (
        "framework/thalweg/engines/laplacian/jacobi.py",
        "running &= left > goal",
        "running &= left > self.rtol",
    ),
    (
        "plugins/thalweg_isometry/near_isometry.py",
        "v = points[first + row] - others[counts[row] & ~apart[row]]",
        "v = points[first + row] - others[counts[row] & apart[row]]",
    ),
)


@dataclass(frozen=True)
class Mutation:
    """A piece of a source file, and what takes its place."""

    file: str
    line: int
    start: int
    end: int
    text: str
    annotates: bool = False

    @property
    def name(self) -> str:
        """Where it is."""
        return f"{self.file}:{self.line}:{self.start}"

    def apply(self, source: str) -> str:
        """The file's text with the change."""
        lines = source.splitlines(keepends=True)
        line = lines[self.line - 1].encode()
        changed = line[: self.start] + self.text.encode() + line[self.end :]
        lines[self.line - 1] = changed.decode()
        return "".join(lines)

    def changed_line(self) -> str:
        """The line with the change."""
        source = (ROOT / self.file).read_text(encoding="utf-8")
        return self.apply(source).splitlines()[self.line - 1].strip()


def numeric_nodes(tree: ast.AST) -> list[tuple[ast.AST, bool]]:
    """Nodes inside functions, without messages and arguments, and whether they annotate."""
    found: list[tuple[ast.AST, bool]] = []

    def visit(node: ast.AST, inside: bool, annotates: bool) -> None:
        if isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr | ast.arguments):
            return
        if inside:
            found.append((node, annotates))
        for name, value in ast.iter_fields(node):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    types = annotates or name in ("returns", "annotation")
                    visit(child, inside or isinstance(node, ast.FunctionDef), types)

    visit(tree, False, False)
    return found


def mutations_of(path: Path) -> list[Mutation]:
    """All places of a module where a sign, a factor or two indices can be changed."""
    source = path.read_text(encoding="utf-8")
    lines = [line.encode() for line in source.splitlines()]
    file = str(path.relative_to(ROOT))
    found = []

    def between(left: ast.expr, right: ast.expr, old: bytes, new: str) -> None:
        if left.end_lineno == right.lineno:
            start = lines[right.lineno - 1].find(old, left.end_col_offset, right.col_offset)
            if start >= 0:
                found.append(Mutation(file, right.lineno, start, start + len(old), new))

    for node, annotates in numeric_nodes(ast.parse(source)):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
            old, new = (b"+", "-") if isinstance(node.op, ast.Add) else (b"-", "+")
            text = ast.unparse(node)
            if (
                not any(
                    isinstance(n, ast.Constant | ast.List | ast.Tuple | ast.Starred)
                    and not isinstance(getattr(n, "value", None), float)
                    for n in (node.left, node.right)
                )
                and '"' not in text
                and "'" not in text
            ):
                between(node.left, node.right, old, new)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
            for side in (node.left, node.right):
                if isinstance(side, ast.Constant) and isinstance(side.value, float):
                    text = f"{2.0 * side.value!r}"
                    place = (side.lineno, side.col_offset, side.end_col_offset or 0)
                    found.append(Mutation(file, *place, text))
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add | ast.Sub):
            text = ast.unparse(node.value)
            if (
                not isinstance(node.value, ast.Constant | ast.List | ast.Tuple)
                and "'" not in text
                and '"' not in text
            ):
                old, new = (b"+=", "-=") if isinstance(node.op, ast.Add) else (b"-=", "+=")
                between(node.target, node.value, old, new)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            if not isinstance(node.operand, ast.Constant):
                place = (node.lineno, node.col_offset, node.col_offset + 1)
                found.append(Mutation(file, *place, "+"))
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple):
            indices = node.slice.elts
            if len(indices) == 2 and all(isinstance(index, ast.Name) for index in indices):
                first, second = indices
                if first.lineno == second.end_lineno:
                    text = f"{ast.unparse(second)}, {ast.unparse(first)}"
                    place = (first.lineno, first.col_offset, second.end_col_offset or 0)
                    found.append(Mutation(file, *place, text, annotates))
    return found


@functools.cache
def places() -> dict[str, list[Mutation]]:
    """All places of each module that is not left out."""
    found = {}
    for folder in FAMILIES:
        top = ROOT / folder
        for path in [top] if top.is_file() else sorted(top.rglob("*.py")):
            if path.stem not in LEFT_OUT and (here := mutations_of(path)):
                found[str(path.relative_to(ROOT))] = here
    return found


def by_hand() -> list[Mutation]:
    """Those listed, but for what is no longer in the code."""
    found = []
    for file, old, new in BY_HAND:
        lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines, start=1):
            if old in line:
                start = len(line[: line.index(old)].encode())
                found.append(Mutation(file, number, start, start + len(old.encode()), new))
    return found


def outdated() -> list[str]:
    """What these lists name and the code no longer has, and changes that are no Python."""
    changes = {
        file: [(place.changed_line(), place) for place in here] for file, here in places().items()
    }
    lines = {(file, line) for file, here in changes.items() for line, _ in here}
    wrong = [f"harmless: {file}: {line}" for file, line in HARMLESS if (file, line) not in lines]
    stems = {path.stem for folder in FAMILIES for path in (ROOT / folder).rglob("*.py")}
    wrong += [f"left out: {name}" for name in sorted(LEFT_OUT - stems)]
    named = [*FAMILIES, *OTHERS, *itertools.chain(*FAMILIES.values(), *OTHERS.values())]
    wrong += [f"no folder: {folder}" for folder in named if not (ROOT / folder).exists()]
    for file, old, _ in BY_HAND:
        if (ROOT / file).read_text(encoding="utf-8").count(old) != 1:
            wrong.append(f"by hand: {file}: {old}")
    for mutation in chosen():
        source = (ROOT / mutation.file).read_text(encoding="utf-8")
        try:
            same = ast.dump(ast.parse(mutation.apply(source))) == ast.dump(ast.parse(source))
        except SyntaxError:
            same = True
        if same:
            wrong.append(f"no change: {mutation.name}: {mutation.changed_line()}")
    return wrong


def chosen() -> list[Mutation]:
    """Those by hand and some places of each module, the same ones every time.

    More of a module hold those that fewer do.
    """
    cases = by_hand()
    for file, here in places().items():
        shuffled = random.Random(file).sample(here, len(here))
        drawn = [mutation for mutation in shuffled if not mutation.annotates][:PLACES]
        cases += sorted(drawn, key=lambda mutation: (mutation.line, mutation.start))
    return cases


if __name__ == "__main__":
    print("\n".join(outdated()) or "every mutation can be planted")
