"""What the end-to-end suites stand on: Spark in child processes, driven over pipes.

A test never imports PySpark itself. It asks a child process, which owns one Spark driver,
to run a named scenario and to answer with plain JSON. A child that hangs or dies fails the
test that waits for it and nothing else.
"""
