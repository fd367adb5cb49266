"""Feed-forward networks with exact Hessian and Gauss-Newton products."""
