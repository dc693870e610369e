"""Privacy by construction: the goal is split into shares, and every teacher teaches its own."""
