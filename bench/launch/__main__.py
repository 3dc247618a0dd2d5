"""`make bench B=launch`: how long real programs take to start, cold, with `warmset run`, and warm.

Each program is recorded, then its variants are timed in interleaved rounds, the first of which is discarded. What was
measured is kept below target/, so that a run that was broken off goes on; `--again` starts over.
"""

from __future__ import annotations

import programs
from suite import Suite

README = """# launch

`make bench B=launch{quick}`, on the machine described in `raw.json`, which has all figures. Seconds, medians of
interleaved rounds: {rounds}.
The first round is discarded, but on the throttled disk.

Before each cold run the files of the program's profile are evicted one by one (`POSIX_FADV_DONTNEED`); `left` is the
part of their bytes that cachestat(2) still found in the page cache then: files that running processes have mapped, such
as the C library. Names, inodes and the file system's own blocks stay cached. `warmset`, `sh` and `vmtouch` are warm, as
often used commands are. Then {warmed} MiB of memory are touched and freed: the host of this virtual machine takes freed
memory back, and page allocation would be timed instead of the disk. A user's machine does not have this. The host's
cache is not emptied: a cold read costs what the virtual disk gives.

- **cold**: the program alone. **run**: `warmset run`, its own time included, from `warmset learn --exact`.
- **vmtouch**: whole files of the same profile are read by `vmtouch` in the background while the program starts.
- **warm**: everything in the page cache. **warm run**: the same with `warmset run`.
- **Throttled disk**: the same disk, the programs in a block-I/O cgroup with {iops} requests and {mib_per_s} MiB a
  second. Each request counts, also one next to the last, for which a real hard disk would not have to move its heads.
  The profiles are recorded with `--disk-order`.

`saved` is 1 − run / cold; `at most` is 1 − warm / cold: no prefetching can save more, what seems to is noise. `gap` is
(cold − run) / (cold − warm), at most 100 %, and not told where cold − warm is less than the distance between the
quartiles of the cold runs. `unused` is the part of the fetched bytes in pages that a further run did not touch. A
program without a late trigger has no `launch-all` of its own: it would be the same command as `run`. Not installed:
{missing}. Failed: {failed}.

{tables}
![seconds per program](launch.svg)
"""

if __name__ == "__main__":
    Suite("launch", programs.ALL, programs.QUICK, README, prepare=programs.prepare).main()
