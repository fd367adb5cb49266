"""Saddle-free Hessian-free optimization and its rivals: |H|-based steps from products."""
