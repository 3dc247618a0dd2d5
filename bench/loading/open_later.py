"""Starts an office without a window, waits until it is idle, has it open a file, and writes how long that took.

`open_later.py SOFFICE DIRECTORY SECONDS`: DIRECTORY is for the user's settings and the file. The office opens the file
when a second call asks it to convert it: this call only sends a message to the first one, and waits for it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path


def ticks(group: int) -> int:
    """The processor time of a group of processes, in clock ticks."""
    total = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(") ")[2].split()
            except OSError:
                continue  # It has just ended.
            if int(fields[2]) == group:
                total += int(fields[11]) + int(fields[12])
    return total


def wait_until_idle(group: int, seconds: float) -> None:
    """Returns when the group has used hardly any processor time for so long."""
    while True:
        before = ticks(group)
        time.sleep(seconds)
        if before > 0 and ticks(group) - before <= 2:
            return


def main() -> None:
    """Opens and measures."""
    program, directory, seconds = sys.argv[1], Path(sys.argv[2]), float(sys.argv[3])
    letter, made = directory / "later.txt", directory / "later.pdf"
    letter.write_text("A letter.\n" * 50)
    made.unlink(missing_ok=True)
    office = [program, "--headless", "--norestore", f"-env:UserInstallation=file://{directory}/office-later"]
    server = subprocess.Popen(office, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until_idle(server.pid, seconds)
        started = time.perf_counter()
        convert = [*office, "--convert-to", "pdf", "--outdir", str(directory), str(letter)]
        subprocess.run(convert, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        print("loaded", time.perf_counter() - started)
        if not made.exists():
            raise RuntimeError(f"{program} has not converted {letter}")
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait()


if __name__ == "__main__":
    main()
