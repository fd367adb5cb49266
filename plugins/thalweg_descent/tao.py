"""PETSc's TAO as a provider of solvers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from thalweg.engines.hessian import HessianProduct, hessian_operator, remove_shift
from thalweg.errors import InputError, suggestion
from thalweg.interfaces import Objective, Preconditioner, require
from thalweg.parallel import Array, Layout, PETSc, array_of, fill_vec, options_prefix, vec_over
from thalweg.parallel.petsc import sizes
from thalweg.plugins import Help
from thalweg_descent import external

#: Newton methods: our preconditioner is the PC of their inner Krylov solver.
NEWTON = ("nls", "ntr", "bnls", "bntr", "bntl", "tron")

#: Limited-memory methods whose H0 can be set.
WITH_H0 = ("lmvm", "blmvm")

#: Methods that have no place for a preconditioner.
PLAIN = ("cg", "bncg", "bqnls", "bqnkls", "bqnktr", "bqnktl")

#: TAO's other types want constraints, residuals or an l1 term, show no iterate (``nm``), or end the
#: process where a step of theirs fails (``ntl``: bntl is the same).
FITTING = tuple(sorted((*NEWTON, *WITH_H0, *PLAIN)))


@dataclass(frozen=True, kw_only=True)
class Tao(external.ExternalSolver):
    """A TAO solver for smooth problems without constraints.

    Attributes
    ----------
    type
        TAO's name of it; types that take Hessian products need an objective that has them.
    preconditioner
        Inside: the PC of Newton methods, the H0 of lmvm and blmvm.  Other types
        take none but the identity.
    """

    preconditioned: ClassVar[bool] = True

    type: Annotated[str, Help("TAO type")] = "lmvm"
    preconditioner: Preconditioner | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.type not in FITTING:
            hint = suggestion(self.type, FITTING)
            raise InputError(f"TAO has no type '{self.type}' that fits this problem{hint}")
        if self.type in PLAIN and not self._is_plain:
            takers = ", ".join(sorted((*NEWTON, *WITH_H0)))
            raise InputError(
                f"solver 'tao:{self.type}' has no place for a preconditioner; "
                f"use the preconditioner 'identity', or one of the types {takers}"
            )

    @classmethod
    def takes_preconditioner(cls, options: Mapping[str, Any]) -> bool:
        """Not TAO's conjugate gradients and quasi-Newton methods with bounds."""
        return options.get("type") not in PLAIN

    def check(self, objective: Objective) -> None:
        """The Newton types need a Hessian product."""
        if self.type in NEWTON:
            fitting = [f"tao:{kind}" for kind in FITTING if kind not in NEWTON]
            require(objective, (HessianProduct,), f"solver 'tao:{self.type}'", fitting)

    @property
    def _is_plain(self) -> bool:
        return self.preconditioner is None or self.preconditioner.is_identity

    def start(self, state: external.ExternalState, known: bool) -> external.RunningSolver:
        """TAO at ``state.origin``."""
        preconditioner = None if self._is_plain else self.preconditioner
        return _RunningTao(self.type, external.Evaluator(state, known), preconditioner, state)


class _RunningTao(external.RunningSolver):
    """A TAO object whose loop is suspended in its convergence test."""

    def __init__(
        self,
        kind: str,
        evaluator: external.Evaluator,
        inner: Preconditioner | None,
        state: external.ExternalState,
    ) -> None:
        self.kind, self.evaluator = kind, evaluator
        self.layout = state.objective.layout
        self.x = state.origin.copy()  # TAO's own
        self.seen = state.origin
        self.point = state.origin.copy()  # of the Hessian
        self.preconditioner = None if inner is None else _Inner(inner, self.layout)
        arrays = self.x, np.zeros(self.layout.shape)
        self.objects: list[Any] = [vec_over(self.layout, array) for array in arrays]
        self.tao = self._build(kind)
        self.coroutine = external.Coroutine(self._solve)

    def _build(self, kind: str) -> PETSc.TAO:
        comm = self.layout.comm
        tao = PETSc.TAO().create(comm)
        tao.setOptionsPrefix(options_prefix("tao"))
        tao.setType(kind)
        tao.setObjectiveGradient(self._value_and_gradient, self.objects[1])
        tao.setObjective(self._value)
        # The driver decides when to stop: TAO's own tolerances and budgets are out of the way.
        tao.setTolerances(gatol=0.0, grtol=0.0, gttol=0.0)
        tao.setMaximumIterations(2**30)
        tao.setMaximumFunctionEvaluations(2**30)
        if kind in NEWTON:
            hessian = hessian_operator(self.evaluator, self.point)
            self.objects.append(hessian)
            tao.setHessian(self._move_hessian, hessian, hessian)
            tao.getKSP().getPC().setType(PETSc.PC.Type.NONE)
        tao.setSolution(self.objects[0])
        tao.setFromOptions()
        if kind == "bqnkls" and PETSc.Sys.getVersion() >= (3, 26):
            # The set-up makes the quasi-Newton matrix its own preconditioner; from this
            # release on it is not solved with once it is shifted.
            tao.setUp()
            tao.getKSP().getPC().setType(PETSc.PC.Type.NONE)
        if self.preconditioner is not None:
            if kind in WITH_H0:
                # With "preonly", H0 is the preconditioner; its matrix is never multiplied with.
                size = sizes(self.layout)
                initial = PETSc.Mat().createPython((size, size), self.preconditioner, comm=comm)
                initial.setUp()
                self.objects.append(initial)
                tao.setLMVMH0(initial)
                krylov = tao.getLMVMH0KSP()
                krylov.setType(PETSc.KSP.Type.PREONLY)
            else:
                krylov = tao.getKSP()
            inner = krylov.getPC()
            inner.setType(PETSc.PC.Type.PYTHON)
            inner.setPythonContext(self.preconditioner)
        return tao

    # -- what TAO calls --------------------------------------------------------------------

    def _value(self, tao: PETSc.TAO, at: PETSc.Vec) -> float:
        return self.evaluator.evaluate(array_of(self.layout, at)).value

    def _value_and_gradient(self, tao: PETSc.TAO, at: PETSc.Vec, to_fill: PETSc.Vec) -> float:
        evaluation = self.evaluator.evaluate(array_of(self.layout, at))
        assert evaluation.gradient is not None
        fill_vec(to_fill, evaluation.gradient)
        return evaluation.value

    def _move_hessian(self, tao: PETSc.TAO, at: PETSc.Vec, hessian: PETSc.Mat, *_: Any) -> None:
        self.point[...] = array_of(self.layout, at)
        remove_shift(hessian)

    def _solve(self, ask: Callable[[Any], Any]) -> None:
        def pause(tao: PETSc.TAO) -> bool | None:
            """TAO's convergence test: suspend, and end the loop if asked to."""
            # None lets TAO go on in every version of petsc4py; False does not.
            return True if ask("iterate") else None

        self.tao.setConvergenceTest(pause)
        self.tao.solve()

    # -- what the adapter calls ------------------------------------------------------------

    def advance(self) -> external.Evaluation | None:
        """Resume TAO until its iterate has changed."""
        for _ in range(external.MAX_REPEATED):
            if self.preconditioner is not None:
                self.preconditioner.current = self.x.copy()
            try:
                self.coroutine.resume(False)
            except PETSc.Error as error:
                if error.__cause__ is not None:  # newer releases wrap what our code raises
                    raise error.__cause__ from None
                # As its line search does where a minimum is flat; a loop started anew may go on.
                reason = str(error).splitlines()[-1].removeprefix("[0] ")
                self.evaluator.objective.note(f"TAO's {self.kind} ended with an error: {reason}")
                return None
            if not self.evaluator.same(self.seen, self.x):
                evaluation = self.evaluator.evaluate(self.x)
                if evaluation.finite:
                    self.step_length = self.layout.norm(self.seen - evaluation.x)
                    self.seen = evaluation.x
                    return evaluation
            if self.coroutine.has_ended:
                break
        return None

    def close(self) -> None:
        """Let TAO's loop return, and free everything."""
        if not self.coroutine.has_ended:
            self.coroutine.resume(True)
        self.coroutine.close()
        self.tao.destroy()
        for item in self.objects:
            item.destroy()


class _Inner:
    """Context of PETSc's preconditioner: ours."""

    def __init__(self, preconditioner: Preconditioner, layout: Layout) -> None:
        self.preconditioner, self.layout = preconditioner, layout
        self.current: Array | None = None

    def apply(self, pc: PETSc.PC, residual: PETSc.Vec, to_fill: PETSc.Vec) -> None:
        if self.current is not None:
            self.preconditioner.update(self.current)
            self.current = None
        fill_vec(to_fill, self.preconditioner.apply(array_of(self.layout, residual)))
