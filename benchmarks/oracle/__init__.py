"""What a change of the core is judged by: lessons on about seventy pools, measured by nothing of superteach."""
