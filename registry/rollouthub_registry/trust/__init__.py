"""Signing and verifying bundles: keys, signatures, and the publishers' keys that this machine trusts."""
