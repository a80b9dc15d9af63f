"""What generates for an adapter: trainers' own engines, and gateways that record by address."""
