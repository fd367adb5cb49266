"""Affinities: from data, or from the user, to symmetric weights whose rows lie on the ranks."""
