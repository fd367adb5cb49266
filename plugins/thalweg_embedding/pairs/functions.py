"""Scalar functions of a squared distance, with their first two derivatives.

An embedding objective is a pair of them: one attracts neighbors, the other
keeps all points apart.  Whoever writes two such functions has a new objective
with gradient, Hessian products, Laplacians and every partial-Hessian strategy.
"""

import functools
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numba
import numpy as np
from numba.extending import register_jitable

from thalweg.errors import InputError
from thalweg.numerics import exponential

#: Transformations of sums allowed to the compiler; infinities and NaN keep their meaning.
FASTMATH = frozenset({"reassoc", "contract", "nsz", "arcp"})

#: Compiles a function into the loops that call it: the compiler makes vector code of a loop only
#: where it sees no call.
inlined = numba.njit(fastmath=set(FASTMATH), inline="always")


def code_key(function: Callable[..., Any]) -> str:
    """A name for what a function does, the same in every process.

    It covers the code, what the function closes over, and the globals that it reads, other
    functions among them.
    """
    # Compiled code refers to the module that it was compiled in.
    return hashlib.sha256(f"{function.__module__} {_text(function)}".encode()).hexdigest()


def _text(thing: Any) -> str:
    if isinstance(thing, ModuleType):
        return thing.__name__
    if isinstance(thing, np.ndarray):
        return repr((thing.dtype.str, thing.shape, thing.tobytes()))
    # What Numba has compiled shows an address, and its function what it does.
    thing = getattr(thing, "py_func", thing)
    if isinstance(thing, CodeType):
        constants = [_text(constant) for constant in thing.co_consts]
        return repr((thing.co_code, constants, thing.co_names))
    if not isinstance(thing, FunctionType):
        # NumPy's functions show an address too.
        named = callable(thing) and hasattr(thing, "__qualname__")
        return f"{thing.__module__}.{thing.__qualname__}" if named else repr(thing)
    code, names = thing.__code__, _names(thing.__code__)
    seen = [cell.cell_contents for cell in thing.__closure__ or ()]
    seen += [thing.__globals__[name] for name in names if name in thing.__globals__]
    seen += thing.__defaults__ or ()
    # Numba freezes constants when it compiles, those of modules too.
    for module in [entry for entry in seen if isinstance(entry, ModuleType)]:
        seen += [vars(module)[name] for name in names if name in vars(module)]
    return repr((_text(code), [_text(entry) for entry in seen]))


def _names(code: CodeType) -> list[str]:
    """Globals and attributes that code uses, with the functions written inside it."""
    inner = [part for part in code.co_consts if isinstance(part, CodeType)]
    return [*code.co_names, *(name for part in inner for name in _names(part))]


@dataclass(frozen=True, eq=False)
class PairFunction:
    """A function of the squared distance d of two map points.

    Parameters
    ----------
    function
        ``function(d)`` returns three numbers: value, first derivative and second
        derivative at a squared distance d >= 0.  Numba compiles it, so that it may
        use arithmetic, ``math``, and functions under ``numba.extending.register_jitable``.
    name
        For messages.
    exponential
        Whether ``function(d + s) = exp(-s) function(d)``.  The logarithm of a sum of such functions
        is then computed without underflow, however far apart the points are.
    single
        ``single(d)`` returns the same in single precision, for sums whose error is far above that;
        by default they are computed in double precision.
    core_radius
        A mesh's error is relative to the strongest force of a pair.  Where a function is singular
        at 0, or nearly so, only forces at distances above this radius are considered for that.
    source
        How to make it again, since functions made by others do not pickle: what returns
        several of them, its arguments, and which of them it is.

    Raises
    ------
    InputError
        The derivatives do not agree with differences of the values.

    Examples
    --------
    >>> import math
    >>> PairFunction(lambda d: (math.log1p(d), 1 / (1 + d), -1 / (1 + d) ** 2), "log(1 + d)")
    PairFunction('log(1 + d)')
    """

    function: Callable[[float], tuple[float, float, float]]
    name: str
    exponential: bool = False
    single: Callable[[Any], tuple[Any, Any, Any]] | None = None
    core_radius: float = 0.0
    source: tuple[Callable[..., Any], tuple[Any, ...], int] | None = None
    compiled: Any = field(init=False)
    key: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "compiled", inlined(self.function))
        object.__setattr__(self, "key", code_key(self.function))
        _check_derivatives(self.function, self.name)

    @classmethod
    def of_precision(cls, body: Callable[[Any], Any], name: str, **options: Any) -> "PairFunction":
        """A function whose ``body(real)`` computes with numbers of a type, float or float32."""
        return cls(body(float), name, single=body(np.float32), **options)

    def __repr__(self) -> str:
        return f"PairFunction({self.name!r})"

    def __reduce__(self) -> Any:
        return object.__reduce__(self) if self.source is None else (_made_again, self.source)

    def __call__(self, d: float) -> tuple[float, float, float]:
        """Value, first and second derivative at ``d``, uncompiled."""
        value, first, second = self.function(float(d))
        return float(value), float(first), float(second)


def _made_again(maker: Callable[..., Any], arguments: tuple[Any, ...], place: int) -> Any:
    return maker(*arguments)[place]


@dataclass(frozen=True, eq=False)
class CompiledFunction:
    """A function that loops are specialized with, and a name for what it does."""

    compiled: Any
    key: str

    @classmethod
    @functools.cache
    def of(cls, function: Callable[..., Any]) -> "CompiledFunction":
        """Compile a function, once."""
        return cls(inlined(function), code_key(function))


def _check_derivatives(function: Callable[..., Any], name: str) -> None:
    for d in (0.03, 0.7, 3.1):
        step = 1e-5 * d
        low, here, high = (np.array(function(d + s), dtype=float) for s in (-step, 0.0, step))
        slopes = (high[:2] - low[:2]) / (2 * step)
        if not np.allclose(slopes, here[1:], rtol=1e-5, atol=1e-6 * (1e-3 + abs(here).max())):
            raise InputError(
                f"the derivatives of pair function '{name}' at d = {d:g} are {here[1]:g} and "
                f"{here[2]:g}, but differences of its values give {slopes[0]:g} and {slopes[1]:g}"
            )


#: The odd numbers below 21, of the series of artanh.
ODD = tuple(float(n) for n in range(19, 0, -2))


@register_jitable
def log_one_plus(d: float) -> float:
    """log(1 + d) for d >= 0, in a form that the compiler turns into vector code.

    1 + d = 2^k (1 + f) with 1 + f near 1, log(1 + f) = 2 artanh(f/(2 + f)) by a
    polynomial, and a first-order correction for what 1 + d lost of d.
    """
    y = 1.0 + d
    bits = np.float64(y).view(np.int64)
    k: Any = np.float64((bits >> 52) - 1023)
    m: Any = np.int64((bits & 0xFFFFFFFFFFFFF) | 0x3FF0000000000000).view(np.float64)
    halve = m > 1.4142135623730951
    m = 0.5 * m if halve else m
    k = k + 1.0 if halve else k
    f = m - 1.0
    s = f / (2.0 + f)
    z = s * s
    p = 1.0 / 21.0
    for odd in ODD:
        p = p * z + 1.0 / odd
    return k * 0.6931471805599453 + 2.0 * s * p + (d - (y - 1.0)) / y


#: Moshier's polynomial for log(1 + t) / t^3, |t| < 0.42, less its first coefficient.
CEPHES = tuple(
    np.float32(c)
    for c in (
        -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1,
        2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
    )
)  # fmt: skip


@inlined
def log_one_plus_single(d: Any) -> Any:
    """log(1 + d) for d >= 0 in single precision, to 2e-7 of 1 + d, as vector code (Cephes)."""
    y = np.float32(np.float32(1.0) + d)
    bits = y.view(np.int32)
    # 1 + d = 2^k m with m from sqrt(1/2) to sqrt(2).
    k = (bits - np.int32(0x3F3504F3)) >> np.int32(23)
    m: Any = np.int32(bits - (k << np.int32(23))).view(np.float32)
    t = m - np.float32(1.0)
    p = np.float32(7.0376836292e-2)
    for coefficient in CEPHES:
        p = p * t + coefficient
    return np.float32(k) * np.float32(0.693147181) + (t + t * t * (t * p - np.float32(0.5)))


def _distance(d: float) -> tuple[float, float, float]:
    return d, 1.0, 0.0


def _distance_single(d: Any) -> tuple[Any, Any, Any]:
    return d, np.float32(1.0), np.float32(0.0)


def _gaussian(d: float) -> tuple[float, float, float]:
    e = exponential(-d)
    return e, -e, e


def _student(d: float) -> tuple[float, float, float]:
    k = 1.0 / (1.0 + d)
    return k, -k * k, 2.0 * k * k * k


#: d, the attraction of s-SNE and the elastic embedding.
DISTANCE = PairFunction(_distance, "d", single=_distance_single)

#: exp(-d), the repulsion of s-SNE and the elastic embedding.
GAUSSIAN = PairFunction(_gaussian, "exp(-d)", exponential=True)

#: 1/(1 + d), the repulsion of t-SNE.
STUDENT = PairFunction(_student, "1/(1 + d)")
