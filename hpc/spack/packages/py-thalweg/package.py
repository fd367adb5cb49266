# spack repo add hpc/spack && spack install py-thalweg
"""Recipe of Spack for thalweg."""

from spack.package import depends_on, license, variant, version

try:
    from spack_repo.builtin.build_systems.python import PythonPackage
except ImportError:  # Spack before 1.0
    from spack.package import PythonPackage


class PyThalweg(PythonPackage):
    """Optimization of problems whose curvature has structure, from a laptop to mpirun."""

    homepage = "https://github.com/thalweg/thalweg"
    git = "https://github.com/thalweg/thalweg.git"

    license("BSD-3-Clause")

    version("main", branch="main")

    variant(
        "petsc", default=True, description="factorizations over ranks, TAO's and SLEPc's solvers"
    )

    depends_on("python@3.11:", type=("build", "run"))
    depends_on("py-hatchling@1.27:", type="build")
    depends_on("mpi")  # in place of the wheel of MPICH, which pip would bring
    depends_on("py-filelock@3.30:", type=("build", "run"))
    depends_on("py-greenlet@3:", type=("build", "run"))
    depends_on("py-matplotlib@3.7:", type=("build", "run"))
    depends_on("py-mpi4py@3.1:", type=("build", "run"))
    depends_on("py-numba@0.59:", type=("build", "run"))
    depends_on("py-numpy@1.26:", type=("build", "run"))
    depends_on("py-pillow@10:", type=("build", "run"))
    depends_on("py-pluggy@1.4:", type=("build", "run"))
    depends_on("py-scikit-learn@1.5:", type=("build", "run"))
    depends_on("py-scipy@1.11:", type=("build", "run"))
    depends_on("py-threadpoolctl@3:", type=("build", "run"))
    depends_on("py-tomli-w@1:", type=("build", "run"))
    depends_on("py-tqdm@4.60:", type=("build", "run"))
    depends_on("petsc ~complex +double +mpi", when="+petsc")
    depends_on("py-petsc4py@3.18:", type=("build", "run"), when="+petsc")
    depends_on("py-slepc4py@3.18:", type=("build", "run"), when="+petsc")
