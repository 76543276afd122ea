"""Code shared by the watched programs of these tests."""

# Where torch's backward ends, its thread may be the last to hold a copy of the program's context,
# and takes the GIL to let it go: https://github.com/pytorch/pytorch/pull/180701. Where the
# interpreter is already on its way out, the process aborts instead ("terminate called without an
# active exception"), watched or not: https://github.com/pytorch/pytorch/issues/117762.
ENDS_AFTER_AUTOGRAD = """
def end_after_autograd():
    import atexit, contextvars, os, time, weakref
    class Mark:
        pass
    mark = contextvars.ContextVar("mark")
    mark.set(Mark())
    held, process = weakref.ref(mark.get()), os.getpid()
    def wait():
        mark.set(None)
        while held() is not None and os.getpid() == process:
            time.sleep(0.01)
    atexit.register(wait)
end_after_autograd()
"""
"""Start of a program that, at its end, waits for backward's threads to release its context.

A fork has no such thread, and does not wait for it.
"""
