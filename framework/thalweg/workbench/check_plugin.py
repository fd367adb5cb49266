"""The whole suite on every spec of a plugin module: ``thalweg plugin check MODULE``."""

import functools
import importlib.util
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np

from thalweg import testing
from thalweg.data import Dataset
from thalweg.driver.assembly import objective_identity
from thalweg.driver.evaluations import read_only
from thalweg.driver.minimize import minimize
from thalweg.errors import InputError, ThalwegError
from thalweg.interfaces import Objective, Preconditioner, Solver, missing_capabilities
from thalweg.parallel import MPI, Array
from thalweg.plugins import (
    CommandSpec,
    DataSpec,
    MetricSpec,
    ObjectiveSpec,
    Plugins,
    PreconditionerSpec,
    Provider,
    SolverSpec,
    Spec,
    plugins,
    resolve_options,
)
from thalweg.plugins.manager import GROUP
from thalweg.plugins.specs import KINDS
from thalweg.workbench.readers import load_data
from thalweg.workbench.strict_json import as_json

#: One finding: what was checked, whether it passed, and what is wrong or was seen.
Finding = tuple[str, bool, str]

#: Builds an objective on the ranks of a communicator.
Build = Callable[[MPI.Comm], Objective]

#: Small data sets that objectives are tried on, one after the other; of primes of rows, which no
#: ranks share evenly.
SAMPLES: tuple[Mapping[str, Any], ...] = (
    {"name": "blobs", "rows": 127, "dimension": 6, "clusters": 3, "seed": 1},
    {"name": "iris", "scale": "standard"},
    {"name": "breast-cancer", "rows": 101, "scale": "standard"},
    {"name": "digits", "rows": 127, "scale": "unit"},
)


def check_plugin(module_name: str, comm: MPI.Comm = MPI.COMM_SELF) -> list[Finding]:
    """Run the conformance suite on all that a plugin module provides.  Collective.

    Objectives are built with their default options on small data sets.  On several ranks
    objectives, data sets, metrics and six steps of solvers are compared with one.
    Preconditioners and solvers are tried on the module's own objectives, on a small reference
    problem, and else on any installed objective that fits.

    ``module_name`` is that with the hooks, such as ``"thalweg_mine.plugin"``, or its package; it
    need not be registered as an entry point.  Gives what was checked, whether it passed, and what
    is wrong, equal on all ranks.
    """
    suite = _Suite(comm)
    module = suite.run(f"import {module_name}", lambda: _import(module_name))
    specs = suite.run("hooks", lambda: _specs(module)) if isinstance(module, ModuleType) else None
    for spec in specs or []:
        suite.check_spec(spec)
    return suite.findings


@dataclass
class _Suite:
    comm: MPI.Comm
    findings: list[Finding] = field(default_factory=list)
    objectives: list[Build] = field(default_factory=list)

    def run(self, name: str, action: Callable[[], Any]) -> Any:
        """Note whether an action passes; its outcome, or None if it fails.  Collective."""
        outcome, wrong = None, ""
        try:
            outcome = action()
        except (AssertionError, ThalwegError) as error:
            wrong = str(error) or "an assertion failed"
        except Exception as error:
            wrong = f"{type(error).__name__}: {error}"
        texts = self.comm.allgather(wrong)
        message = outcome if isinstance(outcome, str) else ""
        if failed := any(texts):
            rank = next(rank for rank, text in enumerate(texts) if text)
            message = "" if all(texts) else f"on rank {rank} of {self.comm.size}: "
            message += texts[rank]
        self.findings.append((name, not failed, " ".join(message.split())))
        return None if failed else outcome

    def check_spec(self, spec: Spec) -> None:
        name = spec.owner
        if self.run(f"{name}: description", lambda: _check_description(spec)) is None:
            return
        if isinstance(spec, ObjectiveSpec):
            self.check_objective(spec)
        elif isinstance(spec, PreconditionerSpec | SolverSpec):
            self.check_method(spec)
        elif isinstance(spec, DataSpec):
            self.run(f"{name}: data", lambda: _check_data(spec, self.comm))
        elif isinstance(spec, MetricSpec):
            self.run(f"{name}: measure", lambda: _check_metric(spec, self.comm))

    # -- the kinds of plugins ----------------------------------------------------------------

    def check_objective(self, spec: ObjectiveSpec) -> None:
        name = spec.owner
        needed = [option.name for option in spec.declared_options if option.default == ""]
        if needed:
            self.run(name, lambda: f"not built: it needs option '{needed[0]}' from the user")
            return
        build = self.run(f"{name}: build", lambda: _builder(spec, self.comm))
        if build is None:
            return
        self.objectives.append(build)
        objective = build(self.comm)
        x, other = (read_only(objective.initial_point(seed)) for seed in (0, 1))
        self.run(f"{name}: starting point", lambda: testing.check_same_start(objective))

        def check_capabilities(at: Array) -> str:
            return ", ".join(testing.check_capabilities(objective, at))

        for seed, start in enumerate((x, other)):
            check = functools.partial(testing.check_gradient, objective, start, seed=seed)
            self.run(f"{name}: gradient at start {seed}", check)
            check_all = functools.partial(check_capabilities, start)
            self.run(f"{name}: capabilities at start {seed}", check_all)
        self.run(f"{name}: results", lambda: _check_results(objective, x))
        if self.comm.size > 1:
            ranks = f"{name}: one rank and {self.comm.size}"
            self.run(ranks, lambda: testing.check_ranks(build, self.comm))

    def check_method(self, spec: PreconditionerSpec | SolverSpec) -> None:
        kind = Solver if isinstance(spec, SolverSpec) else Preconditioner

        def build() -> Any:
            part = _build(spec)
            kind_built = type(part).__name__
            assert isinstance(part, kind), f"it builds a {kind_built}, not a {kind.__name__}"
            return part

        def check() -> str:
            objective = self.fitting(spec.resolve().requires, spec.owner)
            x = objective.initial_point(0)
            if kind is Solver:
                try:
                    testing.check_solver(build, objective, x)
                except InputError as refusal:  # what is missing is an option of the objective
                    return f"not run: {refusal}"
                if self.comm.size > 1:
                    alone = self.fitting(spec.resolve().requires, spec.owner, MPI.COMM_SELF)
                    every, one = (
                        minimize(each, solver=build(), iterations=6).objective
                        for each in (objective, alone)
                    )
                    assert _are_close(every, one), (
                        f"after six steps the objective is {every!r}, and {one!r} on one rank"
                    )
            else:
                preconditioner = build()
                testing.check_preconditioner(preconditioner, objective, x)
                preconditioner.close()
            return f"on {type(objective).__name__}"

        promised = "symmetric, positive definite, linear"
        self.run(f"{spec.owner}: {'steps and resumption' if kind is Solver else promised}", check)

    def fitting(
        self, requires: tuple[Any, ...], owner: str, comm: MPI.Comm | None = None
    ) -> Objective:
        """An objective that has what is required: the module's, the reference, or any other."""
        lacking = ""
        for build in self._candidates():
            try:
                objective = build(comm or self.comm)
            except ThalwegError:
                continue
            missing = missing_capabilities(objective, requires)
            if not missing:
                return objective
            lacking = missing[0].described()
        raise AssertionError(
            f"no objective to check {owner} on: it needs {lacking}; provide an objective that "
            f"has one in the same module"
        )

    def _candidates(self) -> Iterator[Build]:
        yield testing.SpringProblem
        yield from self.objectives
        for spec in plugins().specs(ObjectiveSpec):
            try:
                yield _builder(spec, self.comm)
            except Exception:
                continue


def _builder(spec: ObjectiveSpec, comm: MPI.Comm) -> Build:
    """What builds an objective on a sample of data that it accepts."""
    options = resolve_options(spec.declared_options, {}, spec.owner)

    def build(sample: Mapping[str, Any] | None, comm: MPI.Comm) -> Any:
        dataset = None if sample is None else load_data(sample, comm)
        return spec.build(dataset, comm, options=options)

    refusals = []
    for sample in (None,) if spec.data == "none" else SAMPLES:
        try:
            objective = build(sample, comm)
        except InputError as error:
            if sample is None:
                raise
            refusals.append(f"{sample['name']}: {error}")
            continue
        name = type(objective).__name__
        assert isinstance(objective, Objective), f"it builds a {name}, not an Objective"
        return functools.partial(build, sample)
    raise AssertionError("it accepts none of the sample data sets: " + "; ".join(refusals))


# -- checks of specs ---------------------------------------------------------------------------


def _import(name: str) -> ModuleType:
    """The module of that name, or the module ``plugin`` of a package without hooks."""
    module = importlib.import_module(name)
    with_hooks = any(hasattr(item, f"{GROUP}_impl") for item in vars(module).values())
    beside = importlib.util.find_spec(f"{name}.plugin") if hasattr(module, "__path__") else None
    return module if with_hooks or beside is None else importlib.import_module(f"{name}.plugin")


def _specs(module: ModuleType) -> list[Spec]:
    registry = Plugins(only=())
    registry.register(module, Provider(module.__name__, module.__name__, ""))
    assert not registry.broken, registry.broken[0].error
    specs: list[Spec] = [spec for kind in KINDS for spec in registry.specs(kind)]
    assert specs, f"no function of {module.__name__} that is marked with @hookimpl returns specs"
    return specs


def _check_description(spec: Spec) -> str:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", spec.name), (
        f"the name '{spec.name}' must be lower-case words joined by hyphens"
    )
    assert spec.summary.strip(), "the summary is empty"
    names = [option.keyword for option in spec.declared_options]
    assert len(set(names)) == len(names), f"an option is declared twice: {names}"
    assert "name" not in names, "'name' is the plugin's own in configurations; rename the option"
    for option in spec.declared_options:
        assert option.help.strip(), f"option '{option.name}' has no help"
        if option.default is not None:
            option.check(option.default, spec.owner)
    code = spec.resolve()
    assert callable(code), f"{spec.load} is not callable"
    parameters = inspect.signature(code).parameters
    if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        for name in names:
            assert name in parameters, f"{spec.load} takes no keyword '{name}', which is declared"
    if spec.variant:
        assert spec.variant in names, f"variant '{spec.variant}' is not an option"
    if isinstance(spec, CommandSpec):
        assert parameters, f"{spec.load} must take the list of arguments"
    return f"{len(names)} options"


def _build(spec: Spec) -> Any:
    options, others = resolve_options(spec.declared_options, {}, spec.owner), {}
    if isinstance(spec, SolverSpec):
        if spec.variant and options[spec.variant] is None:
            choices = next(o.choices for o in spec.declared_options if o.name == spec.variant)
            assert choices, f"variant '{spec.variant}' has neither a default nor choices"
            options[spec.variant] = choices[0]
        if spec.resolve().preconditioned:
            known = {spec.name: spec for spec in plugins().specs(PreconditionerSpec)}
            others["preconditioner"] = _build(known["identity"]) if "identity" in known else None
    return spec.build(options=options, **others)


def _check_results(objective: Objective, x: Any) -> str:
    solution, layout = objective.solution(x), objective.solution_layout
    assert np.ndim(solution) == 2, f"solution must be an array of two axes, not {solution!r:.60}"
    if layout.replicated:
        every = objective.comm.allgather(solution)
        same = all(np.array_equal(every[0], other, equal_nan=True) for other in every)
        assert same, "solution differs between ranks"
    else:
        rows, declared = objective.comm.allgather(len(solution)), layout.counts().tolist()
        assert rows == declared, f"solution has {rows} rows per rank, not {declared} as its layout"
    assert objective_identity(objective), "the objective has no identity"
    return _check_measures(objective.metrics(x))


def _check_measures(measures: Mapping[str, Any]) -> str:
    """Their names, where ``result.json`` can hold them."""
    for name, value in measures.items():
        try:
            as_json({name: value})
        except TypeError as error:
            raise AssertionError(f"metric '{name}' is nothing for result.json: {error}") from error
    return ", ".join(measures)


def _check_data(spec: DataSpec, comm: MPI.Comm) -> str:
    options = resolve_options(spec.declared_options, {}, spec.owner)
    dataset, alone = (spec.build(ranks, options=options) for ranks in (comm, MPI.COMM_SELF))
    assert isinstance(dataset, Dataset), f"it returns a {type(dataset).__name__}, not a Dataset"
    layout, values, labels = dataset.layout, dataset.values, dataset.labels
    assert values.shape == layout.shape, (
        f"this rank's values have shape {values.shape}, the layout says {layout.shape}"
    )
    assert values.dtype.kind in "fui", f"the values are of type {values.dtype}"
    assert bool(np.isfinite(values).all()), "there are values that are not finite"
    assert labels is None or labels.shape == layout.shape[:1], (
        f"this rank's labels have shape {np.shape(labels)}, not one for each of its "
        f"{layout.local_rows} rows"
    )
    same = layout.rows == alone.layout.rows and _are_close(values, layout.local(alone.values))
    assert same, f"its rows on {comm.size} ranks are not those on one"
    same = labels is None or np.array_equal(labels, layout.local(alone.labels))
    same &= dataset.label_names == alone.label_names
    assert same, f"its labels on {comm.size} ranks are not those on one"
    return f"{layout.rows} x {layout.columns}"


def _check_metric(spec: MetricSpec, comm: MPI.Comm) -> str:
    sets = load_data(SAMPLES[0], comm), load_data(SAMPLES[0])
    measures, alone = (
        spec.resolve()(read_only(np.array(data.values[:, :2])), data, data.comm) for data in sets
    )
    assert isinstance(measures, Mapping), f"it returns a {type(measures).__name__}, not a dict"
    assert len(set(map(repr, comm.allgather(dict(measures))))) == 1, "the ranks measure differently"
    for name, value in measures.items():
        one = alone.get(name)
        same = _are_close(value, one)
        assert same, f"measure '{name}' is {value!r} on {comm.size} ranks, and {one!r} on one"
    return _check_measures(measures)


def _are_close(found: Any, wanted: Any) -> bool:
    """Whether two values are equal, numbers but for what sums in another order may make of them."""
    try:
        found, wanted = np.asarray(found, float), np.asarray(wanted, float)
    except (TypeError, ValueError):
        return bool(found == wanted)
    scale = np.abs(wanted).max(initial=0.0)
    return bool(np.allclose(found, wanted, 1e-4, 1e-9 * scale, equal_nan=True))
