"""The audit of a promise: attacks as programs on what a coordinator sees, and an ε measured beside the one claimed."""
