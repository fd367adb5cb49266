"""A Kronecker-factored approximation of a network's Fisher matrix, as a metric."""
