"""Who made a bundle: keys, signatures, and the keys this machine trusts."""
