"""The loops over points and modes of a mesh."""

import math

import numpy as np
from numba import prange

from thalweg.parallel import kernel
from thalweg_embedding.pairs.functions import FASTMATH, inlined

#: Of products of three factors: free to reorder, the compiler does so anew where code is loaded.
IN_ORDER = set(FASTMATH - {"reassoc"})


@inlined
def _taps(coordinate, coefficients, weights):
    """First mesh point that a point reaches; ``weights`` receives those of it and the next."""
    taps = weights.size
    first = np.int64(math.ceil(coordinate))
    u = 2.0 * (first - coordinate) - 1.0
    u = coefficients.dtype.type(u)
    for t in range(taps):
        weights[t] = coefficients[0, t]
    for power in range(1, coefficients.shape[0]):
        for t in range(taps):
            weights[t] = weights[t] * u + coefficients[power, t]
    return first


@inlined
def _places(points, n, row, scale, shift, taps, coefficients, wa, wb, wc):
    """First mesh points that a point reaches along three axes, and the weights there."""
    d = points.shape[0]
    a = b = 0
    half = 0.5 * taps
    if d == 3:
        a = _taps(points[0, n] * scale + shift - half, coefficients, wa) - row
    if d >= 2:
        b = _taps(points[d - 2, n] * scale + shift - half, coefficients, wb)
        b -= row if d == 2 else 0
    c = _taps(points[d - 1, n] * scale + shift - half, coefficients, wc)
    return a, b, c


@kernel(parallel=True, fastmath=set(FASTMATH))
def spread(points, strengths, groups, row, scale, shift, taps, coefficients, mesh):
    """Add the points, of these strengths or of ones, to the rows of the mesh from ``row`` on."""
    d, padded = points.shape[0], coefficients.shape[1]
    ta, tb = taps if d == 3 else 1, taps if d >= 2 else 1
    for parity in range(2):
        # Groups of the same parity share no mesh point, whichever threads they are spread by.
        for pair in prange((groups.size - parity) // 2):
            group = 2 * pair + parity
            wa = np.ones(padded, mesh.dtype)
            wb = np.ones(padded, mesh.dtype)
            wc = np.empty(padded, mesh.dtype)
            for n in range(groups[group], groups[group + 1]):
                a, b, c = _places(points, n, row, scale, shift, taps, coefficients, wa, wb, wc)
                if strengths.size > 0:
                    for t in range(padded):
                        wc[t] *= strengths[n]
                for i in range(ta):
                    for j in range(tb):
                        weight = wa[i] * wb[j]
                        line = mesh[a + i, b + j, c : c + padded]
                        for t in range(padded):
                            line[t] += weight * wc[t]


@kernel(parallel=True, fastmath=set(FASTMATH))
def interpolate(points, row, scale, shift, taps, coefficients, mesh, values):
    """Series at the points: several lie one beside the other in the last axis of ``mesh``."""
    d, padded = points.shape[0], coefficients.shape[1]
    ta, tb = taps if d == 3 else 1, taps if d >= 2 else 1
    count, kinds = values.shape
    width = kinds * padded
    for block in prange((count + 255) // 256):
        wa = np.ones(padded, mesh.dtype)
        wb = np.ones(padded, mesh.dtype)
        wc = np.empty(padded, mesh.dtype)
        sums = np.empty(width, mesh.dtype)
        for n in range(256 * block, min(256 * (block + 1), count)):
            a, b, c = _places(points, n, row, scale, shift, taps, coefficients, wa, wb, wc)
            c *= kinds
            for t in range(width):
                sums[t] = 0.0
            for i in range(ta):
                for j in range(tb):
                    weight = wa[i] * wb[j]
                    line = mesh[a + i, b + j, c : c + width]
                    for t in range(width):
                        sums[t] += weight * line[t]
            for kind in range(kinds):
                total = sums[kind] * wc[0]
                for t in range(1, padded):
                    total += sums[kind + kinds * t] * wc[t]
                values[n, kind] = total


@kernel(writes=("rows",), parallel=True)
def add_in_order(order, values, rows):
    """Add values to the rows of these numbers, each of which occurs once."""
    for place in prange(order.size):
        for i in range(values.shape[1]):
            rows[order[place], i] += values[place, i]


@kernel(parallel=True, fastmath=IN_ORDER)
def convolve(density, influence, waves, axis, product):
    """Modes of half the derivative along ``axis`` of the influence's potential."""
    rows = density.shape[0] * density.shape[1]
    for row in prange(rows):
        a, b = row // density.shape[1], row % density.shape[1]
        for c in range(density.shape[2]):
            k = a if axis == 0 else (b if axis == 1 else c)
            factor = density.real.dtype.type(0.5 * waves[k]) * influence[a, b, c]
            here = density[a, b, c]
            product[a, b, c] = complex(-factor * here.imag, factor * here.real)


@kernel(parallel=True, fastmath=IN_ORDER)
def energy(density, influence, first, sums):
    """By rows, the sum over modes of both signs of influence times squared density."""
    for row in prange(sums.size):
        a, b = row // density.shape[1], row % density.shape[1]
        total = 0.0
        for c in range(density.shape[2]):
            here = density[a, b, c]
            power = influence[a, b, c] * (here.real * here.real + here.imag * here.imag)
            total += power if c + first == 0 else 2.0 * power
        sums[row] = total
