"""Generic descent: directions, line searches, and adapters to TAO and SciPy."""
