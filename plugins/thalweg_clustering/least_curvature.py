"""Whether a fixed point is a local minimum: the least curvature on the tangent space."""

import numpy as np

from thalweg.parallel import agreed
from thalweg_clustering.stiefel_objectives import StiefelObjective

#: Residual at which a Ritz value counts as the eigenvalue, relative to the largest of them, and
#: the most products.
TOLERANCE, MOST_PRODUCTS = 1e-6, 200


def least_curvature(objective: StiefelObjective, w: np.ndarray, phi: np.ndarray) -> float:
    """Least curvature of F at a fixed point W, which tells whether it is a minimum.  Collective.

    The Hessian of the Lagrangian there is ``Z -> D(Phi(W) W)[Z] - Z Lambda``, with ``Lambda = W'
    Phi(W) W`` (Wu et al., 2018, Theorem 1).  F does not change where W turns within its span; of
    the tangent space the Z with ``W'Z = 0`` are left.  Condition (10) suffices for the least
    eigenvalue to be positive there; the eigenvalue itself decides where (10) does not hold.  It
    is found by Lanczos steps, one product each, from above.

    ``w`` has shape ``(d, q)``, ``phi`` is Phi(W).
    """
    d, q = w.shape
    multipliers, size = w.T @ phi @ w, min((d - q) * q, MOST_PRODUCTS)

    def across(direction: np.ndarray) -> np.ndarray:
        return direction - w @ (w.T @ direction)

    basis, images = np.empty((0, w.size)), np.empty((0, w.size))
    start = across(np.random.default_rng(0).standard_normal(w.shape)).ravel()
    vector, done, least = start / np.linalg.norm(start), False, 0.0
    while not done:
        z = agreed(objective.comm, vector).reshape(w.shape)
        image = across(objective.hessian_product(w, z) - z @ multipliers)
        basis, images = np.vstack([basis, z.ravel()]), np.vstack([images, image.ravel()])
        products = basis @ images.T
        values, vectors = np.linalg.eigh(0.5 * (products + products.T))
        rest = vectors[:, 0] @ images - values[0] * (vectors[:, 0] @ basis)
        small = np.linalg.norm(rest) <= TOLERANCE * np.abs(values).max()
        for _ in range(2):  # what is left along W would grow, an eigenvector of across's value 0
            rest = across((rest - (basis @ rest) @ basis).reshape(w.shape)).ravel()
        vector = rest / max(float(np.linalg.norm(rest)), 1e-300)
        least, small = agreed(objective.comm, (float(values[0]), bool(small)))
        done = small or len(basis) >= size
    if not small:
        objective.note(f"least_curvature is a bound from above: {size} products did not settle it")
    return least
