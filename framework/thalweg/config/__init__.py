"""Configuration files, checked against what the plugins declare."""
