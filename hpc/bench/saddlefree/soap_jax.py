"""SOAP in JAX: Adam in the eigenvectors of Shampoo's factors (Vyas et al., 2024, algorithm 3).

For the transformer, which has no twin in PyTorch; compiled as the other rivals are.
"""

from __future__ import annotations

from typing import Any

#: Share of the old means of gradients, squares and factors, and updates between two renewals of
#: the eigenvectors, as in the paper.
BETA, RENEWED = 0.95, 10

EPSILON = 1e-8


def soap(rate: float, decay: float) -> Any:
    """An ``optax.GradientTransformation``; vectors get Adam's update."""
    import jax
    import jax.numpy as jnp
    import optax

    def start(leaf: Any) -> dict[str, Any]:
        zero = {"mean": jnp.zeros_like(leaf), "square": jnp.zeros_like(leaf)}
        if leaf.ndim != 2:
            return zero
        squares = {f"factor {k}": jnp.zeros((size, size)) for k, size in enumerate(leaf.shape)}
        bases = {f"basis {k}": jnp.eye(size) for k, size in enumerate(leaf.shape)}
        return {**zero, **squares, **bases}

    def init(tree: Any) -> Any:
        return jnp.zeros((), jnp.int32), jax.tree_util.tree_map(start, tree)

    def renewed(own: dict[str, Any], count: Any) -> dict[str, Any]:
        """One step of orthogonal iteration, by descending eigenvalues; at first all of them."""
        new = dict(own)
        for axis in (0, 1):
            factor, basis = own[f"factor {axis}"], own[f"basis {axis}"]
            order = jnp.argsort(-jnp.sum(basis * (factor @ basis), axis=0))
            new["square"] = jnp.take(new["square"], order, axis=axis)
            turned = jnp.linalg.qr(factor @ basis[:, order])[0]
            new[f"basis {axis}"] = jax.lax.cond(
                count == 0, lambda f, t: jnp.linalg.eigh(f)[1][:, ::-1], lambda f, t: t,
                factor, turned,
            )  # fmt: skip
        return new

    def moved(gradient: Any, own: dict[str, Any], leaf: Any, count: Any) -> Any:
        own = dict(own)
        matrix = gradient.ndim == 2
        left, right = own.get("basis 0"), own.get("basis 1")

        def turned(a: Any) -> Any:
            return left.T @ a @ right if matrix else a

        own["mean"] = BETA * own["mean"] + (1 - BETA) * gradient
        own["square"] = BETA * own["square"] + (1 - BETA) * turned(gradient) ** 2
        past = jnp.maximum(count, 1).astype(jnp.float32)  # the first gradient only sets the bases
        correction = 1 - BETA**past
        step = turned(own["mean"]) / correction
        step = step / (jnp.sqrt(own["square"] / correction) + EPSILON)
        step = left @ step @ right.T if matrix else step
        if matrix:
            for axis, square in enumerate((gradient @ gradient.T, gradient.T @ gradient)):
                name = f"factor {axis}"
                keep = jnp.where(count == 0, 0.0, BETA)
                own[name] = keep * own[name] + (1 - keep) * square
            own = jax.lax.cond(
                count % RENEWED == 0, lambda o: renewed(o, count), lambda o: dict(o), own
            )
        first = count == 0
        own["mean"] = jnp.where(first, 0.0, own["mean"])
        own["square"] = jnp.where(first, 0.0, own["square"])
        return jnp.where(first, 0.0, -rate * (step + decay * leaf)), own

    def update(gradients: Any, memory: Any, tree: Any) -> Any:
        count, owns = memory
        leaves, structure = jax.tree_util.tree_flatten(gradients)
        pairs = [
            moved(leaf, own, weights, count)
            for leaf, own, weights in zip(
                leaves, structure.flatten_up_to(owns), jax.tree_util.tree_leaves(tree), strict=True
            )
        ]
        changes, owns = zip(*pairs, strict=True)
        return structure.unflatten(changes), (count + 1, structure.unflatten(owns))

    return optax.GradientTransformation(init, update)
