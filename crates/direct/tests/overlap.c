/* Writers of ranges that overlap, in processes of their own: what is left must be of an order of whole writes.
 *
 * usage: overlap mixed FILE ROUNDS | overlap killed FILE ROUNDS
 *   mixed   all write at once; afterwards each pair's common bytes are of one of the two
 *   killed  one is killed while it writes; the other's next write is not held up, and whole
 * Exit codes: 0 as it should be, 1 not (on stderr), 2 it could not run. After three minutes a signal ends it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WRITERS = 3, BYTES = 1 << 20, PAGE = 4096, HOLD_MS = 1500, RUN_S_MAX = 180 };

struct common {
    atomic_int ready, round, done;
};

static unsigned char buffer[WRITERS][BYTES], seen[BYTES];

static void fail(const char *what)
{
    fprintf(stderr, "overlap: %s: %s\n", what, strerror(errno));
    exit(2);
}

static uint64_t mix(uint64_t z)
{
    z += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

struct range {
    long from, to;
};

/* Small and large ones, at any place, most of them over the middle. */
static struct range range_of(int round, int writer)
{
    uint64_t random = mix((uint64_t)round * WRITERS + (uint64_t)writer);
    long half = 1 + (long)(random % (round % 3 ? 9000 : BYTES / 2 - PAGE));
    long middle = BYTES / 2 + (long)((random >> 40) % 4096) - 2048;
    struct range range = {middle - half < 0 ? 0 : middle - half, middle + half};
    return range;
}

/* Each writer has a way of its own: at an offset, at its position, and by a descriptor that is never mapped. */
static void write_range(int writer, int fd, struct range range)
{
    size_t length = (size_t)(range.to - range.from);
    ssize_t done;
    if (writer == 1) {
        if (lseek(fd, range.from, SEEK_SET) != range.from)
            fail("lseek");
        done = write(fd, buffer[writer], length);
    } else {
        done = pwrite(fd, buffer[writer], length, range.from);
    }
    if (done != (ssize_t)length)
        fail("a write was cut short");
}

/* A writer ends with its parent, whatever ends that. */
static void end_with_parent(pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        exit(2);
}

/* No writer may end before its last round: then what is waited for never comes. */
static void wait_until(atomic_int *what, int value)
{
    for (long spins = 1; atomic_load(what) < value; spins++)
        if (spins > 2000) {
            int status;
            if (spins % 1000 == 0 && waitpid(-1, &status, WNOHANG) > 0 && status != 0) {
                fprintf(stderr, "overlap: a writer ended with status %d\n", status);
                exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
            }
            sched_yield();
        }
}

static void check(int round, int fd)
{
    struct range ranges[WRITERS];
    if (pread(fd, seen, BYTES, 0) != BYTES)
        fail("pread");
    for (int i = 0; i < WRITERS; i++)
        ranges[i] = range_of(round, i);
    int found[WRITERS][WRITERS] = {{0}};
    for (long at = 0; at < BYTES; at++) {
        int owner = seen[at] - 1;
        for (int i = 0; i < WRITERS; i++)
            if (i != owner && at >= ranges[i].from && at < ranges[i].to && owner >= 0)
                found[owner][i] = 1;
    }
    for (int i = 0; i < WRITERS; i++)
        for (int j = 0; j < i; j++)
            if (found[i][j] && found[j][i]) {
                fprintf(stderr, "overlap: round %d: the writes of %d and %d are mixed\n", round, i, j);
                exit(1);
            }
}

static void mixed(const char *path, struct common *common, int rounds)
{
    pid_t parent = getpid();
    for (int writer = 0; writer < WRITERS; writer++)
        if (fork() == 0) {
            end_with_parent(parent);
            int fd = open(path, writer == 2 ? O_WRONLY : O_RDWR);
            if (fd < 0)
                fail(path);
            memset(buffer[writer], writer + 1, BYTES);
            for (int round = 1; round <= rounds; round++) {
                atomic_fetch_add(&common->ready, 1);
                wait_until(&common->round, round);
                write_range(writer, fd, range_of(round, writer));
                atomic_fetch_add(&common->done, 1);
            }
            exit(0);
        }
    int fd = open(path, O_RDWR);
    memset(buffer[0], 0, BYTES);
    for (int round = 1; round <= rounds; round++) {
        wait_until(&common->ready, round * WRITERS);
        if (pwrite(fd, buffer[0], BYTES, 0) != BYTES)
            fail("clearing");
        atomic_store(&common->round, round);
        wait_until(&common->done, round * WRITERS);
        check(round, fd);
    }
    for (int status; wait(&status) > 0;)
        if (status != 0)
            fail("a writer failed");
}

static double now_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return 1e3 * (double)time.tv_sec + 1e-6 * (double)time.tv_nsec;
}

static void killed(const char *path, struct common *common, int rounds)
{
    int fd = open(path, O_RDWR), held_up = 0;
    pid_t parent = getpid();
    memset(buffer[0], 1, BYTES);
    memset(buffer[1], 2, BYTES);
    for (int round = 1; round <= rounds; round++) {
        pid_t pid = fork();
        if (pid == 0) {
            end_with_parent(parent);
            int own = open(path, O_RDWR);
            for (int i = 0;; i++) {
                if (pwrite(own, buffer[0], BYTES - PAGE, 0) != BYTES - PAGE)
                    fail("pwrite");
                atomic_store(&common->ready, round);
            }
        }
        wait_until(&common->ready, round);
        /* A fork makes the file's times exact: the kernel does the first write after it. The next one is to be served. */
        if (pwrite(fd, buffer[1], 1, BYTES) != 1)
            fail("pwrite");
        for (volatile long spins = (long)(mix((uint64_t)round) % 100000); spins > 0; spins--) {
        }
        kill(pid, SIGKILL);
        double began = now_ms();
        if (pwrite(fd, buffer[1], BYTES - PAGE, 0) != BYTES - PAGE)
            fail("pwrite");
        double took = now_ms() - began;
        held_up += took > 1;
        if (took > HOLD_MS) {
            fprintf(stderr, "overlap: round %d: held up by a killed writer for %.0f ms\n", round, took);
            exit(1);
        }
        waitpid(pid, NULL, 0);
        if (pwrite(fd, buffer[1], BYTES - PAGE, 0) != BYTES - PAGE || pread(fd, seen, BYTES, 0) != BYTES)
            fail("pwrite and pread");
        if (memcmp(seen, buffer[1], BYTES - PAGE) != 0) {
            fprintf(stderr, "overlap: round %d: a write after the killed one is not whole\n", round);
            exit(1);
        }
    }
    printf("{\"held_up\": %d}\n", held_up);
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: overlap mixed|killed FILE ROUNDS\n");
        return 2;
    }
    struct common *common =
        mmap(NULL, sizeof *common, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int fd = open(argv[2], O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (common == MAP_FAILED || fd < 0)
        fail(argv[2]);
    /* Twice as long: what is written ends before the file's last page. */
    for (int i = 0; i < 2; i++)
        if (pwrite(fd, seen, BYTES, (off_t)i * BYTES) != BYTES)
            fail("filling");
    alarm(RUN_S_MAX);
    if (strcmp(argv[1], "mixed") == 0)
        mixed(argv[2], common, atoi(argv[3]));
    else
        killed(argv[2], common, atoi(argv[3]));
    return 0;
}
