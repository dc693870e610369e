"""The paper again: its tables, figures and statements, each measured by one target of `superteach reproduce`."""
