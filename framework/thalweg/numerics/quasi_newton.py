"""The two-loop recursion of limited-memory BFGS for small vectors."""

from collections.abc import Callable, Sequence

import numpy as np


def two_loop(
    gradient: np.ndarray,
    pairs: Sequence[tuple[np.ndarray, np.ndarray]],
    initial: Callable[[np.ndarray], np.ndarray],
    dot: Callable[[np.ndarray, np.ndarray], float],
) -> np.ndarray:
    """The inverse Hessian times a vector (Nocedal and Wright, algorithm 7.4).

    It is that of pairs of steps s and changes y of the gradient with ``s.y > 0``, the oldest
    first, about H0, which ``initial`` multiplies.  Each of the 2 m inner products waits for the one
    before: for distributed vectors the L-BFGS of thalweg_descent makes two reductions of them.
    """
    result, shares = gradient.copy(), []
    curvatures = [dot(s, y) for s, y in pairs]
    for (s, y), curvature in zip(reversed(pairs), reversed(curvatures), strict=True):
        shares.append(dot(s, result) / curvature)
        result -= shares[-1] * y
    result = initial(result)
    for (s, y), curvature, share in zip(pairs, curvatures, reversed(shares), strict=True):
        result += (share - dot(y, result) / curvature) * s
    return result
