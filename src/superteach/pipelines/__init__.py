"""Pipelines of scikit-learn: the transformers before the learner, and goals given behind them."""
