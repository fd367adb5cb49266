"""Optimization of problems whose curvature has structure."""
