"""``scipy.optimize.minimize`` as a provider of solvers, at any number of ranks.

Only rank 0 runs SciPy, on the whole variable.  Each of its requests is broadcast and served by all
ranks together, so that no collective call stands in a branch that only some ranks take.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from thalweg.engines.hessian import HessianProduct
from thalweg.errors import InputError, NumericalError, suggestion
from thalweg.interfaces import Objective, require
from thalweg.parallel import Array
from thalweg.plugins import Help
from thalweg_descent import external

#: Far beyond any budget of the driver.
ENDLESS = 2**30

#: Norm of a gradient whose square vanishes, or nearly: trust regions would step to NaN.
VANISHING = 1e-154

#: For each method, what keeps it going until the driver says stop.
METHODS: dict[str, dict[str, Any]] = {
    "Nelder-Mead": {"xatol": 0.0, "fatol": 0.0, "maxiter": ENDLESS, "maxfev": ENDLESS},
    "Powell": {"xtol": 0.0, "ftol": 0.0, "maxiter": ENDLESS, "maxfev": ENDLESS},
    "CG": {"gtol": 0.0, "maxiter": ENDLESS},
    "BFGS": {"gtol": 0.0, "maxiter": ENDLESS},
    "L-BFGS-B": {"gtol": 0.0, "ftol": 0.0, "maxiter": ENDLESS, "maxfun": ENDLESS},
    "TNC": {"gtol": 0.0, "ftol": 0.0, "xtol": 0.0, "maxfun": ENDLESS},
    "SLSQP": {"ftol": 0.0, "maxiter": ENDLESS},
    "Newton-CG": {"xtol": 0.0, "maxiter": ENDLESS},
    "trust-ncg": {"gtol": VANISHING, "maxiter": ENDLESS},
    "trust-constr": {"gtol": 0.0, "xtol": 0.0, "maxiter": ENDLESS},
}

#: Methods that work with values alone.
WITHOUT_GRADIENT = ("Nelder-Mead", "Powell")

#: Methods that need Hessian products, and one that uses them where there are any.
WITH_PRODUCT = ("Newton-CG", "trust-ncg")
MAY_USE_PRODUCT = ("trust-constr",)


@dataclass(frozen=True, kw_only=True)
class ScipyMinimize(external.ExternalSolver):
    """A method of ``scipy.optimize.minimize`` for problems without constraints.

    The whole variable passes through rank 0, and some methods (BFGS, SLSQP,
    trust-constr) store matrices of its size squared there.

    Attributes
    ----------
    method
        SciPy's name of it, in SciPy's spelling.
    """

    method: Annotated[str, Help("method of scipy.optimize.minimize")] = "L-BFGS-B"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.method == "trust-krylov":  # it reads memory that it has not set
            raise InputError("equal runs of SciPy's trust-krylov differ; use 'scipy:trust-ncg'")
        if self.method not in METHODS:
            hint = suggestion(self.method, METHODS)
            raise InputError(f"SciPy has no method '{self.method}' that fits this problem{hint}")

    @property
    def derivative_free(self) -> bool:
        """Whether the method works with values alone."""
        return self.method in WITHOUT_GRADIENT

    def check(self, objective: Objective) -> None:
        """The Newton methods need a Hessian product."""
        method = self.method
        if method in WITH_PRODUCT:
            fitting = [f"scipy:{name}" for name in METHODS if name not in WITH_PRODUCT]
            require(objective, (HessianProduct,), f"solver 'scipy:{method}'", fitting)

    def start(self, state: external.ExternalState, known: bool) -> external.RunningSolver:
        """SciPy at ``state.origin``."""
        return _RunningScipy(self.method, external.Evaluator(state, known), state)


class _RunningScipy(external.RunningSolver):
    """SciPy suspended on rank 0, and the service of its requests on all ranks."""

    def __init__(
        self, method: str, evaluator: external.Evaluator, state: external.ExternalState
    ) -> None:
        self.method, self.evaluator = method, evaluator
        self.layout, self.comm = state.objective.layout, state.objective.comm
        whole = self.layout.gather_rows(state.origin).ravel()
        self.current = external.Evaluation(state.origin, state.origin_value, None)
        self.seen, self.shape = whole.copy(), whole.shape
        self.answer: Any = None
        self.coroutine: external.Coroutine | None = None
        if self.comm.rank == 0:
            product = isinstance(state.objective, HessianProduct)
            self.coroutine = external.Coroutine(lambda ask: _run_scipy(ask, method, whole, product))

    def advance(self) -> external.Evaluation | None:
        """Serve requests until SciPy shows an iterate that differs from the last."""
        repeated = 0
        while True:
            kind, arrays = self._next_request()
            if kind == "evaluate":
                self.answer = self._evaluate(arrays[0])
            elif kind == "product":
                self.answer = self._product(*arrays)
            elif kind == "iterate" or (kind == "end" and arrays):
                self.answer = None
                if not np.array_equal(arrays[0], self.seen) and self._take(arrays[0]):
                    return self.current
                repeated += 1
                if kind == "end":
                    return None
                if repeated >= max(external.MAX_REPEATED, *self.shape):
                    # The best vertex of a simplex may stay while the others come nearer: an
                    # iteration that moves nothing.
                    self.step_length = 0.0
                    ends = not (self.evaluator.values_alone and self.evaluator.finite)
                    return None if ends else self.current
            else:
                return None

    def _next_request(self) -> tuple[str, list[np.ndarray]]:
        """SciPy's next request, on all ranks.  Collective."""
        kind, arrays, failure = "end", [], ""
        if self.coroutine is not None and not self.coroutine.has_ended:
            try:
                kind, arrays = self.coroutine.resume(self.answer)
            except Exception as error:
                failure = f"{type(error).__name__}: {error}"
        kind, count, failure = self.comm.bcast((kind, len(arrays), failure), root=0)
        if failure:
            raise NumericalError(f"SciPy's {self.method} failed: {failure}")
        if self.comm.rank != 0:
            arrays = [np.empty(self.shape) for _ in range(count)]
        for array in arrays:
            self.comm.Bcast(array, root=0)
        return kind, arrays

    def _local(self, whole: np.ndarray) -> Array:
        return self.layout.local(whole.reshape(self.layout.rows, self.layout.columns))

    def _evaluate(self, whole: np.ndarray) -> float | tuple[float, np.ndarray]:
        evaluation = self.evaluator.evaluate(self._local(whole))
        if evaluation.gradient is None:
            return evaluation.value
        return evaluation.value, self.layout.gather_rows(evaluation.gradient).ravel()

    def _product(self, whole: np.ndarray, direction: np.ndarray) -> np.ndarray:
        product = self.evaluator.hessian_product(self._local(whole), self._local(direction))
        return self.layout.gather_rows(product).ravel()

    def _take(self, whole: np.ndarray) -> bool:
        evaluation = self.evaluator.evaluate(self._local(whole))
        if evaluation.finite:
            self.step_length = float(np.linalg.norm(whole - self.seen))
            self.current, self.seen = evaluation, whole.copy()
        return evaluation.finite

    def close(self) -> None:
        """Leave SciPy's loop."""
        if self.coroutine is not None:
            self.coroutine.close()


def _run_scipy(
    ask: Callable[[Any], Any], method: str, start: np.ndarray, products: bool
) -> tuple[str, list[np.ndarray]]:
    """SciPy's loop, on rank 0: every call it makes becomes a request."""
    import scipy.optimize

    def whole(x: np.ndarray) -> np.ndarray:
        return np.array(x, dtype=float).ravel()

    def evaluate(x: np.ndarray) -> Any:
        return ask(("evaluate", [whole(x)]))

    def product(x: np.ndarray, direction: np.ndarray) -> np.ndarray:
        return np.asarray(ask(("product", [whole(x), whole(direction)])))

    def show(x: np.ndarray, *more: Any) -> None:
        ask(("iterate", [whole(x)]))

    more: dict[str, Any] = {}
    if method in WITH_PRODUCT or (method in MAY_USE_PRODUCT and products):
        more["hessp"] = product
    result = scipy.optimize.minimize(
        evaluate, start, method=method, jac=None if method in WITHOUT_GRADIENT else True,
        callback=show, options=METHODS[method], **more,
    )  # fmt: skip
    return "end", [whole(result.x)]
