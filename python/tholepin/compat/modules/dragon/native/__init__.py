"""``dragon.native``: processes, pools, and what they share."""

from .._outside import refuse
from .barrier import Barrier
from .event import Event
from .lock import Lock
from .machine import cpu_count
from .pool import Pool
from .process import Popen, Process
from .queue import Queue

__all__ = ["Barrier", "Event", "Lock", "Pool", "Popen", "Process", "Queue", "cpu_count"]


def __getattr__(name: str) -> object:
    refuse(__name__, name, ("Array", "Semaphore", "Value"))
