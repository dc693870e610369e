"""Commands that join `superteach` by entry points; light, so that `superteach --help` starts at once."""
