"""``dragon.infrastructure``: of it Policy, PMIBackend and the Connection of a piped process."""
