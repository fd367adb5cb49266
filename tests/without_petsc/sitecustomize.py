"""Makes PETSc unfit to import in every process that has this folder on its PYTHONPATH."""

import sys

for package in ("petsc4py", "slepc4py"):
    sys.modules[package] = None  # type: ignore[assignment]
