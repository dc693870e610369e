"""How few rows carry a finding: search for rows to remove, and proofs that fewer are not enough."""
