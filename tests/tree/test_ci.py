"""The summary of .ci/run has what the runners said last, and what they did not run."""

from __future__ import annotations

import re
import subprocess

from tree import ROOT

SAID = """\
test result: ok. 7 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s
SKIPPED a_read_only_file_system: mounting a tmpfs needs root
SKIPPED [1] tests/test_bad_input.py:40: needs a mount namespace
- reserved huge pages !!! CANCELED !!!
======= 40 passed, 1 skipped in 300.00s =======
[INFO]      [java] Tests: succeeded 90, failed 0, canceled 1, ignored 0, in 30 suites, 0 of them aborted
result: {"ok": true}
"""
NOT_SAID = """\
   Compiling warmset-region v0.1.0
test a_full_disk_is_warned_of_once ... ok
"""


def test_the_summary_names_results_and_what_was_skipped() -> None:
    found = re.findall(r"grep -aE '([^']+)' \"\$log\"", (ROOT / ".ci" / "run").read_text())
    assert len(found) == 1, "one grep makes the summary"
    done = subprocess.run(["grep", "-aE", found[0]], input=SAID + NOT_SAID, capture_output=True, text=True)
    assert done.stdout == SAID
