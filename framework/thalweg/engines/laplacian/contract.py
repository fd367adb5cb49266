"""What an objective offers to the engine: the weights of a graph that attracts."""

from abc import abstractmethod
from typing import TypeAlias

import numpy as np
import scipy.sparse

from thalweg.capability import Capability
from thalweg.parallel import Array

#: This rank's rows of a matrix, shape ``(local_rows, rows)``.
MatrixRows: TypeAlias = scipy.sparse.csr_matrix | np.ndarray


class AttractiveLaplacian(Capability):
    """An attractive term whose Hessian is ``scale * L``, L the Laplacian of a graph.

    Vladymyrov and Carreira-Perpinan's partial Hessian 4 L+: block diagonal over
    the columns of the variable, positive semidefinite.
    """

    phrase = "attractive Laplacian"

    #: Whether the weights change with x; if not, one factorization serves all iterates.
    attraction_changes: bool = False

    #: Factor of the Laplacian in the Hessian.
    attraction_scale: float = 4.0

    @abstractmethod
    def attractive_weights(self, x: Array) -> MatrixRows:
        """This rank's rows of the symmetric weights, shape ``(local_rows, rows)``.

        Non-negative with zero diagonal; a CSR matrix, or a dense array.
        """
