"""Lessons across organisations, as an exchange of small signed documents."""
