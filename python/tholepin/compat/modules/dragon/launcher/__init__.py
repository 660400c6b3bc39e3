"""``dragon.launcher``: of it the command."""
