# SPDX-License-Identifier: Apache-2.0
"""watch.py TENURE SOCKETS OUT COMMAND...: runs a command, and writes what `tenure top` shows of it
on a terminal of 100 columns, as text. Ends as the command does."""
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time


def frame_of(tenure, sockets, seconds):
    """The last whole frame that holds a table of pools; empty without one."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 20, 100, 0, 0))
    top = subprocess.Popen([tenure, "top", "--interval", "0.5", "--dir", sockets], stdin=theirs,
                           stdout=theirs, stderr=subprocess.DEVNULL,
                           env=dict(os.environ, TERM="xterm", NO_COLOR="1"))
    os.close(theirs)
    shown, end = "", time.monotonic() + seconds
    while time.monotonic() < end and top.poll() is None:
        if select.select([ours], [], [], 0.1)[0]:
            try:
                shown += os.read(ours, 65536).decode("ascii", "replace")
            except OSError:
                break
    top.terminate()
    top.wait()
    os.close(ours)
    frames = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", one).replace("\r", "")
              for one in shown.split("\x1b[H")]
    whole = [one for one in frames if "pool " in one and "q quit" in one]
    return whole[-1] if whole else ""


def main():
    tenure, sockets, out, *command = sys.argv[1:]
    program = subprocess.Popen(command)
    frame = ""
    while program.poll() is None:
        frame = frame_of(tenure, sockets, 3) or frame
    with open(out, "w", encoding="ascii") as file:
        file.write(frame)
    return program.returncode


sys.exit(main())
