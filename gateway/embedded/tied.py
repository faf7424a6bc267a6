"""Decides how a process is started that must not outlive the one that started it, whatever ends that."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

# Asks the kernel for a signal at the parent's death (PR_SET_PDEATHSIG = 1), then becomes the command. This runs
# in a fresh interpreter: a preexec_fn would run Python between fork and exec of a threaded parent. If the parent
# died before the kernel was asked, it is another process by now.
_DIE_WITH_PARENT = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, int(sys.argv[2]), 0, 0, 0)
if os.getppid() != int(sys.argv[1]):
    sys.exit("the parent is gone")
os.execv(sys.argv[3], sys.argv[3:])
"""


def tied(command: Sequence[str], *, by: signal.Signals) -> list[str]:
    """The command line that runs `command` (an absolute path and its arguments) and sends it `by` when this
    process ends, or when the *thread* that starts it does: start it from one that lives as long as the program."""
    return [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid()), str(int(by)), *command]
