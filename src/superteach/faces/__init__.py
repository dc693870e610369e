"""What people touch: the scikit-learn face, figures and the command line."""
