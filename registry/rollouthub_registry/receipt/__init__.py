"""Receipts: signed statements about finished runs (`hub attest`), and their verification (`hub verify`)."""
