"""Teachers in organisations of their own: their sites, the agreement, the conductor, NVFlare."""
