"""Privacy by construction: the goal is split into shares, and every teacher teaches its own."""

PRIVACY = {
    "isolated": "A goal and a number of rows come in; nothing that depends on rows goes out.",
    "dp": "What goes out is differentially private: two noisy sums of each owner, with ε and δ for every row.",
    "none": "The coordinator can read the rows.",
}
"""What owners of rows can rely on in each privacy mode, the strongest first."""
