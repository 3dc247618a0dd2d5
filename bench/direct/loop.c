// The path itself: pread or pwrite in a loop, by one or more processes on files of their own or on one.
//
// usage: loop read|write|mapread|mapwrite|open random|order BLOCK_BYTES JOBS own|shared FILE_BYTES SECONDS DIR
// mapread and mapwrite are the bare copy: memcpy from or to a mapping that was made before, which no call can beat.
// Prints the operations per second of all jobs together. Files are made and filled before the clock starts; they stay.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void fail(const char *what)
{
    fprintf(stderr, "loop: %s: %s\n", what, strerror(errno));
    exit(2);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + 1e-9 * time.tv_nsec;
}

static void fill(const char *path, size_t bytes)
{
    struct stat found;
    if (stat(path, &found) == 0 && (size_t)found.st_size == bytes)
        return;
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (fd < 0)
        fail(path);
    char *block = malloc(1 << 20);
    memset(block, 7, 1 << 20);
    for (size_t at = 0; at < bytes; at += 1 << 20)
        if (pwrite(fd, block, 1 << 20, at) != 1 << 20)
            fail("filling");
    free(block);
    close(fd);
}

// How many jobs there are and how many are ready: they begin together, since one alone moves almost as much as two.
static struct {
    int jobs, ready;
} *together;

static void begin_together(void)
{
    __atomic_add_fetch(&together->ready, 1, __ATOMIC_SEQ_CST);
    double end = now() + 30;
    while (__atomic_load_n(&together->ready, __ATOMIC_SEQ_CST) < together->jobs) {
        sched_yield();
        if (now() > end) {
            errno = ETIMEDOUT;
            fail("waiting for the other jobs");
        }
    }
}

// One job: goes through the file once by reading, warms up for half of the time, then counts.
static double work(int maps, int writes, int random, size_t block, size_t bytes, double seconds, const char *path,
                   uint64_t seed)
{
    int fd = open(path, O_RDWR);
    if (fd < 0)
        fail(path);
    char *buffer = aligned_alloc(4096, block < 4096 ? 4096 : block);
    memset(buffer, 1, block);
    for (size_t from = 0; from < bytes; from += 1 << 20)
        if (pread(fd, buffer, block, from / block * block) != (ssize_t)block)
            fail("transfer");
    char *mapped = NULL;
    if (maps) {
        mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
        if (mapped == MAP_FAILED)
            fail("mapping");
        for (size_t from = 0; writes && from < bytes; from += 4096)
            mapped[from] = 7;
    }
    size_t blocks = bytes / block, at = 0, done = 0;
    begin_together();
    double began = now(), from = began + seconds / 2, end = from + seconds, time;
    int counts = 0;
    size_t batch = block >= 65536 ? 1 : 32;
    for (;;) {
        for (size_t i = 0; i < batch; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            at = random ? (seed >> 33) % blocks : (at + 1) % blocks;
            if (maps) {
                memcpy(writes ? mapped + at * block : buffer, writes ? buffer : mapped + at * block, block);
                __asm__ volatile("" ::: "memory");
                continue;
            }
            ssize_t moved = writes ? pwrite(fd, buffer, block, at * block) : pread(fd, buffer, block, at * block);
            if (moved != (ssize_t)block)
                fail("transfer");
        }
        done += batch;
        time = now();
        if (!counts && time >= from) {
            counts = 1;
            done = 0;
            from = time;
        } else if (counts && time >= end) {
            break;
        }
    }
    close(fd);
    return done / (time - from);
}

// Calls on names and descriptors that no file below a served directory is behind.
static double calls(double seconds, const char *path)
{
    size_t done = 0;
    char byte;
    double began = now(), time;
    do {
        for (int i = 0; i < 32; i++) {
            struct stat found;
            int fd = open(path, O_RDONLY);
            if (fd < 0 || pread(fd, &byte, 1, 0) != 1 || fstat(fd, &found) || close(fd))
                fail("calls");
        }
        done += 32;
        time = now();
    } while (time < began + seconds);
    return done / (time - began);
}

int main(int argc, char **argv)
{
    if (argc != 9) {
        fprintf(stderr, "usage: loop read|write|mapread|mapwrite|open random|order BLOCK JOBS own|shared FILE_BYTES"
                        " SECONDS DIR\n");
        return 2;
    }
    size_t block = strtoul(argv[3], NULL, 10), bytes = strtoul(argv[6], NULL, 10);
    int maps = strncmp(argv[1], "map", 3) == 0, jobs = atoi(argv[4]), shared = strcmp(argv[5], "shared") == 0, pipes[2];
    double seconds = atof(argv[7]), sum = 0, rate;
    char path[4096];
    if (block == 0 || bytes < block || jobs < 1 || pipe(pipes))
        fail("arguments");
    for (int job = 0; job < (shared ? 1 : jobs); job++) {
        snprintf(path, sizeof path, "%s/loop.%d", argv[8], job);
        fill(path, bytes);
    }
    together = mmap(NULL, sizeof *together, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (together == MAP_FAILED)
        fail("memory");
    together->jobs = jobs;
    for (int job = 0; job < jobs; job++)
        if (fork() == 0) {
            snprintf(path, sizeof path, "%s/loop.%d", argv[8], shared ? 0 : job);
            rate = argv[1][0] == 'o'
                       ? calls(seconds, path)
                       : work(maps, argv[1][maps ? 3 : 0] == 'w', argv[2][0] == 'r', block, bytes, seconds, path,
                              77 + job);
            if (write(pipes[1], &rate, sizeof rate) != sizeof rate)
                fail("pipe");
            exit(0);
        }
    for (int job = 0; job < jobs; job++) {
        int status;
        if (wait(&status) < 0 || status != 0)
            fail("a job failed");
        if (read(pipes[0], &rate, sizeof rate) != sizeof rate)
            fail("pipe");
        sum += rate;
    }
    printf("%.1f\n", sum);
    return 0;
}
