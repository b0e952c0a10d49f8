"""The walls, built from inside by Linux system calls: namespaces, empty root, no privileges, a call filter.

Loaded by the jail process only, with nothing but the standard library. Order matters: namespaces, then the
file system, then privileges; the call filter comes last, in each child.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import signal
import struct
import sys
from pathlib import Path

NOBODY = 65534

_NAMESPACES = {
    "user": 0x10000000,
    "mount": 0x00020000,
    "pid": 0x20000000,
    "network": 0x40000000,
    "ipc": 0x08000000,
    "uts": 0x04000000,
}
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REMOUNT = 1, 2, 4, 8, 32
_MS_BIND, _MS_REC, _MS_PRIVATE = 4096, 16384, 1 << 18
_MNT_DETACH = 2
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = (
    1,
    4,
    22,
    24,
    38,
)
_SECCOMP_MODE_FILTER = 2
_SECCOMP_ALLOW, _SECCOMP_EPERM = 0x7FFF0000, 0x00050000 | 1

# What a computing Python process needs; everything else answers "not permitted": no processes or threads, no
# sockets, no signals to others, no tracing, no mounts, no new limits.
_ALLOWED = {
    "x86_64": {
        "write": 1, "clock_gettime": 228, "mmap": 9, "munmap": 11, "brk": 12, "setitimer": 38,
        "getrandom": 318, "rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15, "futex": 202,
        "mprotect": 10, "mremap": 25, "madvise": 28, "read": 0, "close": 3, "openat": 257, "open": 2,
        "stat": 4, "fstat": 5, "lstat": 6, "newfstatat": 262, "lseek": 8, "poll": 7, "select": 23,
        "pselect6": 270, "ppoll": 271, "nanosleep": 35, "clock_nanosleep": 230, "getitimer": 36, "getpid":
        39, "gettid": 186, "getuid": 102, "geteuid": 107, "getgid": 104, "getegid": 108, "exit": 60,
        "exit_group": 231, "uname": 63, "getcwd": 79, "readlink": 89, "gettimeofday": 96, "getrusage": 98,
        "times": 100, "sigaltstack": 131, "sched_yield": 24, "time": 201, "clock_getres": 229,
        "restart_syscall": 219, "rseq": 334, "getdents64": 217, "access": 21,
    },
    "aarch64": {
        "write": 64, "clock_gettime": 113, "mmap": 222, "munmap": 215, "brk": 214, "setitimer": 103,
        "getrandom": 278, "rt_sigaction": 134, "rt_sigprocmask": 135, "rt_sigreturn": 139, "futex": 98,
        "mprotect": 226, "mremap": 216, "madvise": 233, "read": 63, "close": 57, "openat": 56, "fstat":
        80, "newfstatat": 79, "lseek": 62, "ppoll": 73, "pselect6": 72, "nanosleep": 101,
        "clock_nanosleep": 115, "getitimer": 102, "getpid": 172, "gettid": 178, "getuid": 174, "geteuid":
        175, "getgid": 176, "getegid": 177, "exit": 93, "exit_group": 94, "uname": 160, "getcwd": 17,
        "readlinkat": 78, "gettimeofday": 169, "getrusage": 165, "times": 153, "sigaltstack": 132,
        "sched_yield": 124, "clock_getres": 114, "restart_syscall": 128, "rseq": 293, "getdents64": 61,
        "faccessat": 48,
    },
}  # fmt: skip
_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_CAPSET = {"x86_64": 126, "aarch64": 91}


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


class MissingError(Exception):
    """A wall that this system does not let us build."""


def available() -> bool:
    return sys.platform == "linux" and platform.machine() in _ALLOWED


def libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def enter_namespaces(c: ctypes.CDLL) -> None:
    """Leave the world: new user, mount, process, network, IPC and host-name namespaces.

    As root, become nobody first. The process namespace takes effect with the next fork.
    """
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        _check(c.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0), "dumpable")  # /proc/self stays ours for the id maps
    uid, gid = os.geteuid(), os.getegid()
    _check(c.unshare(sum(_NAMESPACES.values())), "namespaces (user, mount, pid, network, ipc, uts)")
    try:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{NOBODY} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{NOBODY} {gid} 1")
    except OSError as error:
        raise MissingError(f"user namespace id map ({error.strerror})") from None


def empty_root(c: ctypes.CDLL) -> None:
    """Make an empty, read-only file system the root: nothing to read, nowhere to write, nothing to run."""
    flags = _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
    place = next(path for path in (b"/tmp", b"/var", b"/usr", b"/") if Path(os.fsdecode(path)).is_dir())
    _check(c.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None), "private mounts")
    _check(c.mount(b"tmpfs", place, b"tmpfs", flags, b"size=4k,nr_inodes=2,mode=0555"), "empty root")
    os.chdir(place)
    _check(c.syscall(_PIVOT_ROOT[platform.machine()], b".", b"."), "pivot_root")
    _check(c.umount2(b".", _MNT_DETACH), "detached old root")
    _check(c.mount(None, b"/", None, flags | _MS_RDONLY | _MS_REMOUNT | _MS_BIND, None), "read-only root")
    os.chdir("/")


def drop_privileges(c: ctypes.CDLL) -> None:
    """No capability, no way to regain one, no reading of this process from outside."""
    for capability in range(64):
        c.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    _check(c.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges")
    header = struct.pack("=Ii", 0x20080522, 0)
    _check(c.syscall(_CAPSET[platform.machine()], header, bytes(24)), "dropped capabilities")
    _check(c.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0), "not dumpable")
    _check(c.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "death with the supervisor")


def call_filter() -> _Program:
    """The system-call filter as a BPF program: this architecture, the calls in the list, nothing else."""
    machine = platform.machine()
    numbers = list(_ALLOWED[machine].values())
    load_arch, load_number = (0x20, 0, 0, 4), (0x20, 0, 0, 0)
    deny, allow = (0x06, 0, 0, _SECCOMP_EPERM), (0x06, 0, 0, _SECCOMP_ALLOW)
    lines = [load_arch, (0x15, 1, 0, _AUDIT_ARCH[machine]), deny, load_number]
    for position, number in enumerate(numbers):  # jump over the remaining tests and the denial
        lines.append((0x15, len(numbers) - position, 0, number))
    lines += [deny, allow]
    code = b"".join(struct.pack("=HBBI", *line) for line in lines)
    program = _Program(len(lines), code)
    program.keep = code
    return program


def filter_calls(c: ctypes.CDLL, program: _Program) -> None:
    _check(c.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0), "system-call filter")


def limit_resources(memory_bytes: int, cpu_seconds: float) -> None:
    """Hard limits on this process; a program cannot raise them again."""
    seconds = max(1, int(cpu_seconds + 1))
    limits = {
        "RLIMIT_AS": memory_bytes,
        "RLIMIT_CPU": seconds,
        "RLIMIT_CORE": 0,
        "RLIMIT_FSIZE": 0,
        "RLIMIT_NOFILE": 16,
        "RLIMIT_NPROC": 0,
        "RLIMIT_MEMLOCK": 0,
        "RLIMIT_MSGQUEUE": 0,
    }
    for name, value in limits.items():
        number = getattr(resource, name, None)
        if number is not None:
            hard = resource.getrlimit(number)[1]
            value = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(number, (value, value))


def _check(result: int, what: str) -> None:
    if result < 0:
        raise MissingError(f"{what} ({os.strerror(ctypes.get_errno())})")
