"""Files on disk, signals and waiting: what has to do with the operating system."""
