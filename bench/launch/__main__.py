"""`make bench B=launch`: how long real programs take to start, cold, with `warmset run`, and warm.

Each program is recorded, then its variants are timed in interleaved rounds, the first of which is discarded. What was
measured is kept below target/, so that a run that was broken off goes on; `--again` starts over.
"""

from __future__ import annotations

import programs
from suite import Suite

README = """# launch

`make bench B=launch{quick}`, on the machine described in `raw.json`, which has all figures. Seconds, medians of
{rounds} interleaved rounds after one that is discarded.

Before each cold run the files of the program's profile are evicted one by one (`POSIX_FADV_DONTNEED`); `left` is the
part of their bytes that cachestat(2) still found in the page cache then: files that running processes have mapped, such
as the C library. Names and inodes stay cached. `warmset` itself is warm, as an often used command is. Then {warmed} MiB
of memory are touched and freed: the host of this virtual machine takes freed memory back, and page allocation would be
timed instead of the disk. The host's cache is not emptied: a cold read costs what the virtual disk gives.

- **cold**: the program alone. **run**: `warmset run`, its own time included, from `warmset learn --exact`.
- **vmtouch**: whole files of the same profile are read by `vmtouch` in the background while the program starts.
- **warm**: everything in the page cache. **warm run**: the same with `warmset run`.

{tables}
`saved` is 1 − run / cold; `gap` is (cold − run) / (cold − warm); `unused` is the part of the fetched bytes in pages
that a further run did not touch. Not installed: {missing}. A program without a late trigger has no `launch-all` of its
own: it would be the same command as `run`. Not measured: a throttled disk, and the machine's read-ahead where its table
is missing.

![seconds per program](launch.svg)
"""

if __name__ == "__main__":
    Suite("launch", programs.ALL, programs.QUICK, README, prepare=programs.prepare).main()
