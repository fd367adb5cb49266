"""What a change of the core must not change: bits of solutions, and times of typical runs."""
