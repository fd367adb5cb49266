"""
An objective of your own
========================

A value and a gradient on this rank's rows; the solvers, checkpoints and ``mpirun`` come with it.
"""

import numpy as np

import thalweg
from thalweg.interfaces import Objective
from thalweg.parallel import MPI, Layout
from thalweg.workbench.report import draw_convergence


class Denoised(Objective):
    """A signal near noisy samples, whose jumps are few: a smooth total variation."""

    def __init__(self, samples, weight=2.0):
        super().__init__(MPI.COMM_SELF, Layout(MPI.COMM_SELF, *samples.shape))
        self.samples, self.weight = samples, weight

    def value_and_gradient(self, x):
        away, jumps = x - self.samples, np.diff(x, axis=0)
        lengths = np.sqrt(jumps**2 + 1e-3)
        slopes = np.vstack([0 * x[:1], jumps / lengths, 0 * x[:1]])
        gradient = away + self.weight * (slopes[:-1] - slopes[1:])
        return 0.5 * float((away**2).sum()) + self.weight * float(lengths.sum()), gradient


steps = np.repeat([0.0, 3.0, 1.0, 4.0], 50)[:, None]
noisy = steps + np.random.default_rng(0).normal(size=steps.shape)
traces = {}
for solver in ("gradient-descent", "nonlinear-cg", "lbfgs"):
    result = thalweg.minimize(Denoised(noisy), solver=solver, iterations=200)
    traces[solver] = result.trace
figure = draw_convergence(None, traces)
assert np.abs(result.x - steps).mean() < 0.5 * np.abs(noisy - steps).mean()
