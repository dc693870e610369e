"""Which rows to choose, on arrays alone: relaxation, rounding, and searches over subsets."""
