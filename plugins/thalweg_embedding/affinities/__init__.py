"""Affinities: from data, or from the user, to symmetric weights with rows over the ranks."""
