"""The audit of the privacy modes: attacks as programs on what leaves owners, and an ε measured beside the one claimed."""
