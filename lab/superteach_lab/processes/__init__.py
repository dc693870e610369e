"""Child processes: started, heard, limited and ended in one way; Ctrl-C held back while they start."""
