"""What works where PETSc is not installed: every family, on one rank and on two."""

import os
import sys
from pathlib import Path

import pytest

#: Makes petsc4py unfit to import, before anything else is.
ABSENT = str(Path(__file__).with_name("without_petsc"))

FITS = """
import sys, warnings
import numpy as np
from mpi4py import MPI
warnings.simplefilter("ignore")
from sklearn.datasets import load_digits
import thalweg
from thalweg_clustering import KDAC
from thalweg_embedding import (
    TSNE, UMAP, ElasticEmbedding, LaplacianEigenmaps, LargeVis, LocallyLinearEmbedding, NegTSNE,
    PaCMAP, SymmetricSNE, embedding, T_SNE,
)
from thalweg_isometry import FroMax, NearIsometricEmbedding, NILEPro, NuMax, SecantPCA
images, digits = (part[:120] for part in load_digits(return_X_y=True))
data = thalweg.Dataset.from_array(images, digits < 5, comm=MPI.COMM_WORLD)
for kind in (TSNE, SymmetricSNE, ElasticEmbedding, UMAP, LargeVis, NegTSNE, PaCMAP):
    assert np.isfinite(kind(max_iter=3).fit(data).embedding_).all()
for kind in (LaplacianEigenmaps, LocallyLinearEmbedding):
    assert np.isfinite(kind().fit(data).embedding_).all()
assert KDAC(n_clusters=2, n_alternatives=1).fit(data).labels_.min() == 0
for kind in (NuMax, FroMax, NILEPro, NearIsometricEmbedding, SecantPCA):
    assert kind(delta=0.6).fit(data).delta_ <= 0.6
problem = embedding(T_SNE, data, perplexity=10)
for preconditioner in ("spectral", "partial-hessian", "fixed-point", "hessian-diagonal"):
    thalweg.minimize(problem, preconditioner=preconditioner, iterations=3)
for method in ("jacobi", "dense", "superlu"):
    thalweg.minimize(problem, preconditioner="spectral", method=method, neighbors=9, iterations=3)
for solver in ("gradient-descent", "nonlinear-cg", "scipy:L-BFGS-B", "saddle-free"):
    thalweg.minimize(problem, solver=solver, iterations=2)
for wrong in ({"solver": "tao:lmvm"}, {"preconditioner": "spectral", "method": "cholmod"}):
    try:
        thalweg.minimize(problem, **wrong)
    except thalweg.errors.InputError as error:
        assert "PETSc" in str(error), error
    else:
        raise AssertionError(wrong)
assert "petsc4py.PETSc" not in sys.modules
print("fitted")
"""


@pytest.mark.slow
@pytest.mark.petsc  # where it is not installed all other tests run without it
def test_every_family_runs_without_petsc(mpirun):
    path = os.pathsep.join([ABSENT, os.environ.get("PYTHONPATH", "")])
    done = mpirun(2, [sys.executable, "-c", FITS], env={"PYTHONPATH": path})
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("fitted") == 2
