"""Alternative clustering (KDAC): iterative spectral method, Stiefel descent, dimension growth."""
