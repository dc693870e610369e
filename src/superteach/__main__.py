"""`python -m superteach` is the command `superteach`."""

from superteach.cli import main

if __name__ == "__main__":
    main()
