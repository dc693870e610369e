"""A teacher's own rules and its own record of what it was asked."""
