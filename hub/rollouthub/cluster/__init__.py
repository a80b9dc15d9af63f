"""Episodes on a Ray cluster: the pool, its workers, and the servers of models. Nothing else imports Ray."""
