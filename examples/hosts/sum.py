"""sum.py - weft from Python, by ctypes: poll tasks in Python, on a runtime that Python's own thread drives.

usage: sum.py [path of libweft.so]

Three tasks send numbers through a channel, one adds them up.  All of Python runs on the thread that calls weft_drive_wait; none of it is ever
suspended halfway, which an interpreter would not survive: a poll that must wait returns, and is called again.
"""
import ctypes
import errno
import sys
from ctypes import CFUNCTYPE, POINTER, Structure, byref, c_bool, c_int, c_int64, c_size_t, c_uint, c_uint32, c_uint64, c_void_p

weft = ctypes.CDLL(sys.argv[1] if len(sys.argv) > 1 else "libweft.so.0")
PENDING, READY, YIELD = 0, 1, 2
NEVER = 2**63 - 1
Poll = CFUNCTYPE(c_int, c_void_p, c_void_p)


class Config(Structure):  # the first fields of weft_config; `size` says how many are there, those that are not count as 0
    _fields_ = [("size", c_size_t), ("sched", c_int), ("workers", c_uint), ("seed", c_uint64), ("global_capacity", c_uint32),
                ("park_timeout_ns", c_int64), ("no_steal", c_bool), ("driven", c_bool)]


class Wait(Structure):
    _fields_ = [("room", c_void_p * 12)]


for name, *arguments in (("runtime_create", POINTER(Config), POINTER(c_void_p)), ("runtime_destroy", c_void_p),
                         ("drive_wait", c_void_p, c_uint, c_int64), ("go", c_void_p, Poll, c_void_p, POINTER(c_void_p)),
                         ("task_drop", c_void_p), ("task_is_done", c_void_p), ("wait_end", POINTER(Wait)),
                         ("chan_create", c_size_t, c_size_t, POINTER(c_void_p)), ("chan_drop", c_void_p),
                         ("chan_send_poll", c_void_p, c_void_p, POINTER(Wait), c_void_p),
                         ("chan_recv_poll", c_void_p, c_void_p, POINTER(Wait), c_void_p)):
    getattr(weft, "weft_" + name).argtypes = arguments  # else numbers are passed as int
weft.weft_task_is_done.restype = c_bool
weft.weft_strerror.restype = ctypes.c_char_p


def call(name, *arguments):
    """weft_name(arguments), or an exception."""
    result = getattr(weft, "weft_" + name)(*arguments)
    if result < 0:
        raise OSError(-result, weft.weft_strerror(result).decode())
    return result


class Task:
    """A generator as a poll task: it yields whenever it has to wait."""

    def __init__(self, runtime, steps):
        self.steps, self.poll, self.handle, self.error = steps(self), Poll(self.step), c_void_p(), None  # poll: kept as long as weft may call it
        call("go", runtime, self.poll, None, byref(self.handle))

    def step(self, this, _):
        self.this = this
        try:
            return next(self.steps, READY)
        except Exception as error:  # must not leave the callback
            self.error = error
            return READY

    def channel(self, name, channel, value):
        """The same call again and again until it is through."""
        wait = Wait()
        while (result := getattr(weft, "weft_" + name)(channel, self.this, byref(wait), byref(value))) == -errno.EAGAIN:
            yield PENDING
        return result


runtime, channel, total = c_void_p(), c_void_p(), 0
call("runtime_create", byref(Config(ctypes.sizeof(Config), workers=1, driven=True)), byref(runtime))
call("chan_create", 8, 2, byref(channel))


def send(first):
    def steps(task):
        for i in range(100):
            yield from task.channel("chan_send_poll", channel, c_int64(first + i))
            yield YIELD
    return steps


def add(task):
    global total
    value = c_int64()
    for _ in range(300):
        yield from task.channel("chan_recv_poll", channel, value)
        total += value.value


tasks = [Task(runtime, steps) for steps in (send(0), send(1000), send(2000), add)]
while not all(weft.weft_task_is_done(task.handle) for task in tasks):
    call("drive_wait", runtime, 0, NEVER)
for task in tasks:
    weft.weft_task_drop(task.handle)
    if task.error:
        raise task.error
weft.weft_chan_drop(channel)
call("runtime_destroy", runtime)
print("300 numbers, sum", total)
