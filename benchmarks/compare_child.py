"""The noisy command of `benchmarks.compare`: 40 pieces of work, a fork after every fifth. Prints their times, ns.

Run as a file, without site packages, so that starting the interpreter is the smaller part. What it takes differs
from run to run as that of any program does: memory that the kernel has to find, another seed of hashes, where
things lie in memory, and who else is on the machine.
"""

import os
import sys
import time

PIECES = 40
FORK_EACH = 5


def unit(number: int) -> int:
    """About 50 µs."""
    cells = [str(number * 31 + index) for index in range(50)]
    table = {cell: index for index, cell in enumerate(cells)}
    return len(table) + len(sorted(table)) + bytes(150_000).count(b"x")


def main(units: int) -> None:
    work, cpu, forks = [], [], []
    for piece in range(PIECES):
        begin_ns, begin_cpu_ns = time.perf_counter_ns(), time.thread_time_ns()
        for number in range(units):
            unit(number)
        cpu.append(time.thread_time_ns() - begin_cpu_ns)
        work.append(time.perf_counter_ns() - begin_ns)
        if piece % FORK_EACH == 0:
            begin_ns = time.perf_counter_ns()
            child = os.fork()
            if child == 0:
                os._exit(0)
            os.waitpid(child, 0)
            forks.append(time.perf_counter_ns() - begin_ns)
    print([work, cpu, forks])


if __name__ == "__main__":
    main(int(sys.argv[1]))
