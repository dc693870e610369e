"""What the paper prints, measured again: one file per table, figure or list of errata."""
