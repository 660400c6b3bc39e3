"""``dragon.infrastructure.facts``: of it PMIBackend. What else stands there are the numbers of Dragon's own services."""

from __future__ import annotations

import enum


class PMIBackend(str, enum.Enum):
    """How the ranks of an MPI program would find each other; a ProcessGroup here has none (docs/compat.md).

    >>> from dragon.infrastructure.facts import PMIBackend
    >>> PMIBackend.from_str("pmix")
    <PMIBackend.PMIX: 'pmix'>
    """

    CRAY = "cray"
    PMIX = "pmix"

    @staticmethod
    def from_str(s: str) -> PMIBackend:
        """The one of that name; ValueError if there is none."""
        return PMIBackend(s)
