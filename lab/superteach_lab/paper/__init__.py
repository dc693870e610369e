"""The paper again: its tables, figures and Theorem 1, each measured by one target of `superteach reproduce`."""
