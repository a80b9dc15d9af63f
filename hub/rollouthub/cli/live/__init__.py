"""`hub live`: looking in at runs that play, and steering them."""
