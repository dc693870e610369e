"""Stories on real rows: each a script that prints a table and draws one figure.

python -m superteach_lab.stories.NAME [--seeds 10] [--figure PATH]; NAME is minimise, fair, restore, bits or carry.
"""
