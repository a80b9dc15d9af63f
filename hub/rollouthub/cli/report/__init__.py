"""`hub report`: writes the results of runs into one file to share."""
