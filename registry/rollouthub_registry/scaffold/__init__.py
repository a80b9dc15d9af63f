"""`hub new`: writes the files of a new environment package from templates."""
