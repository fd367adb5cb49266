"""Classical test functions with exact Hessian products: valleys, saddles, flat minima."""
