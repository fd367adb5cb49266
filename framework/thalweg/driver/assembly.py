"""The assembly of a run: method, starting point, homotopy, identity and checkpoints.

The one path by which :func:`thalweg.minimize`, configuration files and estimators come from
names and given options to parts that are checked and fit together, and to a result.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from thalweg.driver.checkpoint import Checkpoints
from thalweg.driver.homotopy import HomotopySchedule
from thalweg.driver.loop import drive
from thalweg.driver.stopping import STOP_OPTIONS, Stop
from thalweg.errors import InputError, PluginError, refuse_masked, suggestion
from thalweg.interfaces import (
    Homotopy,
    ManifoldVariable,
    Objective,
    Preconditioner,
    Solver,
    missing_capabilities,
    require,
)
from thalweg.parallel import Array, any_over_ranks, raise_on_all_ranks
from thalweg.parallel.identity import identity_texts
from thalweg.plugins import (
    ObjectiveSpec,
    Option,
    PreconditionerSpec,
    SolverSpec,
    plugins,
    resolve_options,
)
from thalweg.result import Result

#: Whose options the stopping rules are, in messages.
RULES: tuple[str, Sequence[Option]] = ("the stopping rules", STOP_OPTIONS)

#: A name and options, under ``"name"`` and their own names.
Section = Mapping[str, Any]


def resolve_method(
    solver: Section, preconditioner: Section | None, default_preconditioner: Section
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Solver and preconditioner by names and given options, with defaults filled in.

    The preconditioner is None where the solver takes none.  Where the user names none, it is
    ``default_preconditioner`` if the solver has a place for it: ``tao:cg`` and its like have none,
    and get the identity.
    """
    name = solver["name"]
    spec, fixed = plugins().find(SolverSpec, name)
    options = plugins().options(spec, {**without_name(solver), **fixed})
    resolved = {"name": name, **{k: v for k, v in options.items() if k not in fixed}}
    code = spec.resolve()
    if not code.preconditioned:
        if preconditioner is not None:
            raise InputError(f"solver '{name}' takes no preconditioner; leave it out")
        return resolved, None
    chosen: Section = {"name": "identity"}
    if preconditioner is not None:
        chosen = preconditioner
    elif code.takes_preconditioner(options):
        chosen = default_preconditioner
    other, fixed = plugins().find(PreconditionerSpec, chosen["name"])
    options = plugins().options(other, {**without_name(chosen), **fixed})
    return resolved, {"name": chosen["name"], **options}


def build_method(
    objective: Objective, solver: Section, preconditioner: Section | Preconditioner | None
) -> Solver[Any]:
    """The solver with its preconditioner, from what :func:`resolve_method` returns, not set up.

    Where the objective lacks what one of them needs, those that would fit are named.
    """
    inner: Any = preconditioner
    if isinstance(preconditioner, Mapping):
        inner = _build(objective, PreconditionerSpec, preconditioner)
    return _build(objective, SolverSpec, solver, inner)  # type: ignore[no-any-return]


def _build(
    objective: Objective,
    kind: type[SolverSpec] | type[PreconditionerSpec],
    section: Section,
    preconditioner: Preconditioner | None = None,
) -> Any:
    spec, fixed = plugins().find(kind, section["name"])
    code = spec.resolve()
    if missing_capabilities(objective, code.requires):
        fitting = []
        for other in plugins().specs(kind):
            with contextlib.suppress(PluginError):  # what it needs is not installed
                if not missing_capabilities(objective, getattr(other.resolve(), "requires", ())):
                    fitting.append(other.name)
        require(objective, code.requires, spec.owner, fitting)
    options = {**without_name(section), **fixed}
    if kind is SolverSpec and code.preconditioned:
        return spec.build(options=options, preconditioner=preconditioner)
    return spec.build(options=options)


def without_name(section: Section) -> dict[str, Any]:
    """The options of a section."""
    return {key: value for key, value in section.items() if key != "name"}


def method_of_call(
    objective: Objective,
    solver: str | Solver[Any] | None,
    preconditioner: str | Preconditioner | None,
    options: Mapping[str, Any],
    seed: int = 0,
) -> tuple[Solver[Any], Stop]:
    """The method of a call of :func:`thalweg.minimize`, and its stopping rules.

    Each option goes to the part that has it, and the seed to all that are named and draw.
    """
    pair = (("solver", solver, Solver), ("preconditioner", preconditioner, Preconditioner))
    for role, value, kind in pair:
        if not (value is None or isinstance(value, str | kind)):
            raise InputError(f"{role} must be a name or a {kind.__name__} object, not {value!r}")
    if isinstance(solver, Solver):
        if preconditioner is not None:
            part = type(solver).__name__
            if not solver.preconditioned:
                raise InputError(f"solver {part} takes no preconditioner; leave it out")
            raise InputError(
                f"the solver is an object already: give it its preconditioner, as in "
                f"{part}(preconditioner=...), or name the solver"
            )
        return solver, _stop(objective, _sorted(options, (RULES,))[0])
    name = objective.default_solver if solver is None else solver
    spec, fixed = plugins().find(SolverSpec, name)
    code = spec.resolve()
    if preconditioner is not None and not code.preconditioned:
        raise InputError(f"{spec.owner} takes no preconditioner; leave it out")
    places, named = [RULES, (spec.owner, spec.declared_options)], preconditioner
    if named is None and code.preconditioned and code.takes_preconditioner({**options, **fixed}):
        named = objective.default_preconditioner
        if named not in {known.name for known in plugins().specs(PreconditionerSpec)}:
            named = "identity"  # its plugin is not installed
    if isinstance(named, str):
        other, _ = plugins().find(PreconditionerSpec, named)
        places.append((other.owner, other.declared_options))
    rules, own, *rest = _sorted(options, places)
    for of_part, (_, known) in zip((own, *rest), places[1:], strict=True):
        if any(option.name == "seed" for option in known):
            of_part["seed"] = seed
    section = {"name": named, **rest[0]} if isinstance(named, str) else None
    chosen, inner = resolve_method({"name": name, **own}, section, {"name": "identity"})
    outer = named if isinstance(named, Preconditioner) else inner
    return build_method(objective, chosen, outer), _stop(objective, rules)


def _stop(objective: Objective, rules: Mapping[str, Any]) -> Stop:
    return Stop(**resolve_options(STOP_OPTIONS, {**objective.default_stop, **rules}, RULES[0]))


def _sorted(
    options: Mapping[str, Any], places: Sequence[tuple[str, Sequence[Option]]]
) -> list[dict[str, Any]]:
    """For each place, those of the options that it has."""
    of_places: list[dict[str, Any]] = [{} for _ in places]
    for option, value in options.items():
        owners = [k for k, (_, known) in enumerate(places) if option in {o.name for o in known}]
        if not owners:
            every = [o.name for _, known in places for o in known]
            listed = ", ".join(owner for owner, known in places if known)
            raise InputError(f"no option '{option}' in {listed}{suggestion(option, every)}")
        if len(owners) > 1:
            listed = " and ".join(places[k][0] for k in owners)
            raise InputError(f"option '{option}' is one of {listed}: build the object and pass it")
        of_places[owners[0]][option] = value
    return of_places


def objective_identity(objective: Objective, **parts: Any) -> dict[str, Any]:
    """Identity of a problem, its data and method, as flat ``{"part.option": value}``.  Collective.

    Stopping rules are left out: a run may continue with a larger budget.  What cannot be digested
    is noted.
    """
    content = {"objective": {"layout": objective.layout, **objective.identity()}, **parts}
    texts, unseen = identity_texts(objective.comm, content)
    if unseen:
        objective.note(
            "a checkpoint of another problem is not recognized as such where it differs in "
            f"{', '.join(unseen)} alone, which cannot be digested; override identity() of the "
            "objective, or give it arrays"
        )
    return {**texts, "objective": type(objective).__qualname__}


def plugin_versions(objective: Objective, solver: Solver[Any]) -> dict[str, str]:
    """Distribution and version that each part comes from, empty for what is no plugin's.

    Their arithmetic may differ from that of another version.
    """
    by_package = {
        spec.load.partition(":")[0].partition(".")[0]: plugins().provider(spec)
        for kind in (ObjectiveSpec, PreconditionerSpec, SolverSpec)
        for spec in plugins().specs(kind)
    }
    releases = {name: f"{of.distribution} {of.version}" for name, of in by_package.items()}
    parts = {"objective": objective, "solver": solver, "preconditioner": solver.preconditioner}
    packages = {role: type(part).__module__.partition(".")[0] for role, part in parts.items()}
    return {f"{role} distribution": releases.get(name, "") for role, name in packages.items()}


def starting_point(objective: Objective, start: np.ndarray | None, seed: int) -> Array:
    """This rank's rows to start from: those given, or the objective's own.  Collective."""
    rows, name = start, "x0"
    if start is None:
        rows, name = objective.initial_point(seed), f"{type(objective).__name__}.initial_point"
    with raise_on_all_ranks(objective.comm):
        x = checked_rows(rows, objective.layout.shape, name)
    away = objective.manifold.distance(x) if isinstance(objective, ManifoldVariable) else 0.0
    if any_over_ranks(objective.comm, not away <= 1e-6):
        raise InputError(f"{name} lies off the manifold of the variable, by {away:.3g}")
    return x


def checked_rows(rows: Any, shape: tuple[int, int], name: str) -> np.ndarray:
    """Finite real numbers as an array of this shape or flat; else an ``InputError``."""
    try:
        array = np.asanyarray(rows)  # masks included
    except ValueError as error:
        raise InputError(f"{name} must be an array of shape {shape}: {error}") from error
    if array.dtype.kind not in "biuf":
        raise InputError(f"{name} must hold real numbers, not {array.dtype}")
    refuse_masked(array, f"the rows of {name}")
    if array.shape not in (shape, (shape[0] * shape[1],)):
        raise InputError(f"{name} must have shape {shape}, not {array.shape}")
    finite = np.isfinite(array).reshape(shape).all(axis=1)
    if not finite.all():
        raise InputError(f"{name} is not finite in row {int(np.argmin(finite))}")
    return array.astype(float, order="C").reshape(shape)


def assembled(
    objective: Objective,
    solver: Solver[Any],
    start: np.ndarray | None,
    seed: int,
    *,
    homotopy: HomotopySchedule | None = None,
    folder: Path | None = None,
    interval: float = 60.0,
    identity: Mapping[str, Any] | None = None,
) -> Callable[..., Result]:
    """:func:`~thalweg.driver.drive` with all parts of a run but the rules that end it.  Collective.

    The start is this rank's rows, or None for what the objective proposes for ``seed``; stages are
    by default what it proposes.  Checkpoints go into ``folder``, if any, each ``interval`` seconds.
    ``identity`` is what a resumed run must have in common with this one beside the starting point
    and the versions of plugins; by default the objective with its data, and the parts' options.
    """
    if homotopy is None and isinstance(objective, Homotopy):
        homotopy = HomotopySchedule.proposed_by(objective)
    x, checkpoints = starting_point(objective, start, seed), None
    if folder is not None:
        if identity is None:
            identity = objective_identity(objective, solver=solver, homotopy=homotopy)
        # A point that the objective made is told by its seed: its last bits may depend on the
        # number of ranks.
        point = {"seed": seed} if start is None else {"start": objective.layout.digest(x)}
        whole = {**identity, **plugin_versions(objective, solver), **point}
        checkpoints = Checkpoints(folder, interval, whole)
    return partial(drive, objective, solver, x, homotopy=homotopy, checkpoints=checkpoints)
