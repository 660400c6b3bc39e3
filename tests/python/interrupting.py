"""For tests: what a signal handler does, done at each place where Python could run one within the package, or within what it
calls of Python's own for threads and futures, one place a time.

Signal handlers run after a call, at the begin of a function, and at the end of a loop's turn: at these a tracing function is
asked, and does what the handler would do.
"""
import concurrent.futures._base
import dis
import os
import sys
import threading

import tholepin

PACKAGE = os.path.dirname(tholepin.__file__) + os.sep
TRACED = (PACKAGE, threading.__file__, concurrent.futures._base.__file__)
PLACES = ("CALL", "RESUME", "JUMP_BACKWARD", "JUMP_ABSOLUTE")


class _Tracer:
    def __init__(self, number, handler):
        self.left = number
        self.handler = handler
        self.before = {}  # frame -> its last instruction

    def __call__(self, frame, event, arg):
        if not frame.f_code.co_filename.startswith(TRACED) or self.handler is None:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            before = self.before.get(frame, "RESUME")
            self.before[frame] = dis.opname[frame.f_code.co_code[frame.f_lasti]]
            if before.startswith(PLACES):
                self.left -= 1
                if self.left <= 0:
                    handler, self.handler = self.handler, None
                    handler()
        return self


def at_each_place(work, handler, afterwards, step=1):
    """Does ``work()`` again and again, each time with ``handler()`` at another place, and ``afterwards(number, raised)``: at
    how many places."""
    number = 1
    while True:
        tracer, raised = _Tracer(number, handler), None
        sys.settrace(tracer)
        try:
            work()
        except KeyboardInterrupt:
            raised = True
        finally:
            sys.settrace(None)
            tracer.before.clear()
        afterwards(number, raised)
        if tracer.handler is not None:
            return number
        number += step


def interrupt():
    raise KeyboardInterrupt
