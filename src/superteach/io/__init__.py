"""What comes in and what stays: tables, checks of inputs, files that appear whole or not at all."""
