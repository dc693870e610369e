"""Rivals on one bench: contestants choose rows, the referee alone scores them."""
