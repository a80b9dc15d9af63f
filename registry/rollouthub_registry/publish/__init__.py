"""`hub publish`: an environment checked as others will have it, signed, and handed to a registry."""
