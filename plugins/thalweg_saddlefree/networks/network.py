"""Layers of a feed-forward network: values, gradients and the R-operator on rows of data.

Notation: ``a[l]`` are the activations of layer l (``a[0]`` the input rows),
``delta[l]`` the derivative of the loss by the pre-activations of layer l. R{.}
is the derivative along a direction of parameter space (Pearlmutter, 1994); a
leading ``r`` marks it. Everything here is local to a rank.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import blas

from thalweg.errors import InputError
from thalweg.parallel import Identified
from thalweg_saddlefree.networks.functions import Activation, Loss


@dataclass(frozen=True)
class Linearized:
    """Linearization of the network for one chunk of rows, which curvature products use."""

    activations: list[np.ndarray]  # ``a[0] ... a[L-1]``: inputs and hidden layers
    deltas: list[np.ndarray]  # ``delta[1] ... delta[L]``, as sums over rows would use them
    output: np.ndarray  # the network's answer


class Network(Identified):
    """A chain of fully connected layers ``a[l] = phi_l(a[l-1] W[l] + b[l])``.

    ``sizes`` counts the units of every layer, inputs and outputs included; each of the ``len(sizes)
    - 2`` hidden layers has an activation, the last layer's belongs to the loss.
    """

    def __init__(self, sizes: list[int], activations: list[Activation], loss: Loss) -> None:
        self.sizes = list(sizes)
        self.activations = list(activations)
        self.loss = loss
        counts = ((fan_in + 1) * fan_out for fan_in, fan_out in itertools.pairwise(sizes))
        self.offsets = [*itertools.accumulate(counts, initial=0)]

    @property
    def depth(self) -> int:
        """Number of layers with weights."""
        return len(self.sizes) - 1

    @property
    def parameters(self) -> int:
        """Number of weights and biases."""
        return self.offsets[-1]

    def weights(self, flat: np.ndarray, layer: int) -> np.ndarray:
        """W of a layer (counted from 0) as a view, shape ``(fan_in, fan_out)``."""
        fan_in, fan_out = self.sizes[layer], self.sizes[layer + 1]
        start = self.offsets[layer]
        return flat[start : start + fan_in * fan_out].reshape(fan_in, fan_out)

    def biases(self, flat: np.ndarray, layer: int) -> np.ndarray:
        """Biases of a layer as a view, shape ``(fan_out,)``."""
        return flat[self.offsets[layer + 1] - self.sizes[layer + 1] : self.offsets[layer + 1]]

    # -- cost ------------------------------------------------------------------------------

    def flops(self, kind: str) -> int:
        """Operations in matrix products per row of data.

        ``kind`` is ``"value"``, ``"gradient"``, ``"hessian"``, ``"gauss-newton"``, one of the
        latter two followed by ``"form"``, or ``"sample"``; all that concern curvature are
        counted with the linearization at hand.
        """
        sizes = list(itertools.pairwise(self.sizes))
        every = 2 * sum(i * o for i, o in sizes)
        inner = 2 * sum(i * o for i, o in sizes[1:])  # layers that pass something back
        return {
            "value": every,
            "gradient": 2 * every + inner,
            "hessian": 2 * every + 4 * inner,
            "gauss-newton": 2 * every + 2 * inner,
            "gauss-newton form": every + inner,
            "hessian form": every + 2 * inner,
            "sample": inner,
        }[kind]

    # -- passes ----------------------------------------------------------------------------

    def forward(self, flat: np.ndarray, rows: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
        """Activations ``a[0] ... a[L-1]`` and the last pre-activations."""
        activations = [rows]
        for layer in range(self.depth):
            z = np.empty((len(rows), self.sizes[layer + 1]), dtype=flat.dtype)
            multiply(activations[-1], self.weights(flat, layer), z)
            z += self.biases(flat, layer)
            if layer == self.depth - 1:
                return activations, z
            self.activations[layer].apply(z)
            activations.append(z)
        raise AssertionError("a network has at least one layer")

    def loss_of(self, flat: np.ndarray, rows: np.ndarray, target: np.ndarray) -> float:
        """Summed loss of some rows."""
        _, z = self.forward(flat, rows)
        return self.loss.total(z, self.loss.output(z), target)

    def answer(self, flat: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """The network's output for some rows."""
        return self.loss.output(self.forward(flat, rows)[1])

    def linearize(
        self, flat: np.ndarray, rows: np.ndarray, target: np.ndarray
    ) -> tuple[float, Linearized]:
        """Summed loss, and all activations and deltas."""
        activations, z = self.forward(flat, rows)
        output = self.loss.output(z)
        total = self.loss.total(z, output, target)
        back = self._deltas(flat, activations, self.loss.delta(output, target))
        return total, Linearized(activations, [delta for _, delta in back][::-1], output)

    def add_gradient(self, point: Linearized, gradient: np.ndarray, squared: bool = False) -> None:
        """Add to ``gradient`` the sum over rows of the derivatives of their losses, or squares."""
        for layer, (a, delta) in enumerate(zip(point.activations, point.deltas, strict=True)):
            if squared:
                a, delta = a**2, delta**2
            multiply(a.T, delta, self.weights(gradient, layer), add=True)
            self.biases(gradient, layer)[...] += delta.sum(axis=0)

    def leading(self, point: Linearized, rows: int) -> Linearized:
        """The first rows of a linearized chunk, as views."""
        return Linearized(
            [a[:rows] for a in point.activations],
            [delta[:rows] for delta in point.deltas],
            point.output[:rows],
        )

    def fisher_deltas(
        self, flat: np.ndarray, point: Linearized, signs: np.ndarray
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Layers from the last, with sampled derivatives by their pre-activations.

        Back-propagation of ``R' signs``, where ``R'R`` is the Hessian of the loss by the
        outputs and ``signs`` are independent with mean 0 and variance 1.
        """
        return self._deltas(flat, point.activations, self.loss.fisher_sample(point.output, signs))

    def curvature_forms(
        self, flat: np.ndarray, point: Linearized, directions: Sequence[np.ndarray], hessian: bool
    ) -> np.ndarray:
        """``directions[i]' B directions[j]`` of the summed loss, from forward passes alone.

        For the Gauss-Newton matrix, and for the Hessian, zero unless asked for, which weights
        second derivatives of the pre-activations by the deltas: shape ``(2, k, k)``.
        """
        passes = [self._r_forward(flat, point, direction) for direction in directions]
        forms = np.zeros((2, len(passes), len(passes)))
        simple, full = forms
        for i, (rz, ra) in enumerate(passes):
            image = self.loss.gauss_newton(point.output, rz[-1])
            simple[i] += [_total(image, other[-1]) for other, _ in passes]
            if not hessian:
                continue
            image = self.loss.hessian(point.output, point.deltas[-1], rz[-1])
            full[i] += [_total(image, other[-1]) for other, _ in passes]
            for layer in range(1, self.depth):
                outer = np.empty((self.sizes[layer], self.sizes[layer + 1]), dtype=flat.dtype)
                multiply(ra[layer].T, point.deltas[layer], outer)
                mixed = [_total(outer, self.weights(other, layer)) for other in directions]
                full[i] += mixed
                full[:, i] += mixed
                second = self.activations[layer - 1].second_derivative(point.activations[layer])
                if second is not None:
                    second *= point.deltas[layer - 1]
                    second *= rz[layer - 1]
                    full[i] += [_total(second, other[layer - 1]) for other, _ in passes]
        return 0.5 * (forms + forms.transpose(0, 2, 1))

    def add_product(
        self,
        flat: np.ndarray,
        point: Linearized,
        direction: np.ndarray,
        product: np.ndarray,
        hessian: bool,
    ) -> None:
        """Add to ``product`` that of a direction with the Hessian of the summed loss, or with G.

        G = J' (second derivative of the loss) J takes the R-forward pass, then ordinary
        back-propagation (Schraudolph, 2002).
        """
        rz, ra = self._r_forward(flat, point, direction)
        if hessian:
            rdelta = self.loss.hessian(point.output, point.deltas[-1], rz[-1])
        else:
            rdelta = self.loss.gauss_newton(point.output, rz[-1])
        for layer in range(self.depth - 1, -1, -1):
            a, delta = point.activations[layer], point.deltas[layer]
            target = self.weights(product, layer)
            multiply(a.T, rdelta, target, add=True)
            self.biases(product, layer)[...] += rdelta.sum(axis=0)
            if layer == 0:
                return
            activation, back = self.activations[layer - 1], np.empty_like(a)
            multiply(rdelta, self.weights(flat, layer).T, back)
            if hessian:
                multiply(ra[layer].T, delta, target, add=True)
                multiply(delta, self.weights(direction, layer).T, back, add=True)
            activation.times_slope(a, back)
            second = activation.second_derivative(a) if hessian else None
            if second is not None:
                second *= point.deltas[layer - 1]
                second *= rz[layer - 1]
                back += second
            rdelta = back

    def _deltas(
        self, flat: np.ndarray, activations: list[np.ndarray], delta: np.ndarray
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Layers from the last, whose ``delta`` is given, with that passed back to each."""
        for layer in range(self.depth - 1, -1, -1):
            yield layer, delta
            if layer:
                back = np.empty_like(activations[layer])
                multiply(delta, self.weights(flat, layer).T, back)
                self.activations[layer - 1].times_slope(activations[layer], back)
                delta = back

    def _r_forward(
        self, flat: np.ndarray, point: Linearized, direction: np.ndarray
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        # rz[l] belongs to the pre-activations of layer l (from 0), ra[l] to its inputs.
        rz: list[np.ndarray] = []
        ra: list[np.ndarray] = [np.empty(0)]
        for layer in range(self.depth):
            a = point.activations[layer]
            z = np.empty((len(a), self.sizes[layer + 1]), dtype=flat.dtype)
            multiply(a, self.weights(direction, layer), z)
            if layer:
                multiply(ra[layer], self.weights(flat, layer), z, add=True)
            z += self.biases(direction, layer)
            rz.append(z)
            if layer < self.depth - 1:
                moved = z.copy()
                self.activations[layer].times_slope(point.activations[layer + 1], moved)
                ra.append(moved)
        return rz, ra


def multiply(a: np.ndarray, b: np.ndarray, out: np.ndarray, add: bool = False) -> np.ndarray:
    """``out = a b``, or ``out += a b`` with ``add``; no temporary arrays.

    The factors are row-major matrices or transposes of such, ``out`` is row-major, all of one type.
    """
    if 0 in (a.shape[0], a.shape[1], b.shape[1]):
        if not add:
            out[...] = 0
        return out
    gemm = blas.dgemm if out.dtype == np.float64 else blas.sgemm
    # BLAS is column-major: it is given out' = b' a'.
    left, flip_left = (b.T, 0) if b.flags.c_contiguous else (b, 1)
    right, flip_right = (a.T, 0) if a.flags.c_contiguous else (a, 1)
    gemm(
        1.0, left, right, beta=1.0 if add else 0.0, c=out.T, trans_a=flip_left, trans_b=flip_right,
        overwrite_c=1,
    )  # fmt: skip
    return out


def checked_sizes(layers: Sequence[int]) -> None:
    """Refuse a list of layer sizes that makes no network."""
    whole = all(isinstance(n, int | np.integer) and not isinstance(n, bool) for n in layers)
    if len(layers) < 2 or not whole or min(layers, default=0) < 1:
        raise InputError(f"layers must be at least two integers of 1 or more, not {list(layers)!r}")


def _total(a: np.ndarray, b: np.ndarray) -> float:
    # A sum of products in blocks of rows: single precision would lose digits in one long sum.
    return float(np.einsum("ij,ij->i", a, b).sum(dtype=np.float64))


#: Incoming connections of a unit in the sparse scheme.
CONNECTIONS = 15


def starting_weights(network: Network, scheme: str, seed: int, scale: float) -> np.ndarray:
    """All parameters: weights by one of :data:`INITIALIZATIONS`, times ``scale``; zero biases."""
    flat = np.zeros(network.parameters)
    for layer in range(network.depth):
        stream = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(layer,)))
        INITIALIZATIONS[scheme](network.weights(flat, layer), stream, scale)
    return flat


def _glorot(weights: np.ndarray, stream: np.random.Generator, scale: float) -> None:
    """Uniform, of variance ``2 / (fan_in + fan_out)``: Glorot and Bengio (2010), equation 16."""
    bound = np.sqrt(6.0 / sum(weights.shape))
    weights[...] = scale * stream.uniform(-bound, bound, weights.shape)


def _sparse(weights: np.ndarray, stream: np.random.Generator, scale: float) -> None:
    """At most 15 standard normal incoming weights a unit, the others zero.

    Martens (2010), section 5; units neither saturate nor become alike.
    """
    count = min(CONNECTIONS, weights.shape[0])
    for unit in range(weights.shape[1]):
        chosen = stream.choice(weights.shape[0], size=count, replace=False)
        weights[chosen, unit] = scale * stream.standard_normal(count)


def _normal(weights: np.ndarray, stream: np.random.Generator, scale: float) -> None:
    """Independent standard normal."""
    weights[...] = scale * stream.standard_normal(weights.shape)


#: Schemes by the name that users write.
INITIALIZATIONS: dict[str, Callable[[np.ndarray, np.random.Generator, float], None]] = {
    "glorot": _glorot,
    "sparse": _sparse,
    "normal": _normal,
}
