/* The differential fuzzer: what its parts share.
 *
 * Every operation is done twice: on side 0, in the directory that the library serves, and on side 1, in a plain
 * directory. Both must give the same result, errno, data, offset and size. The state here holds descriptors and
 * addresses only; what the files contain is never modelled, side 1 says what is right.
 *
 * Invariant: nothing that differs between the sides (descriptor numbers, addresses, times) decides what is drawn
 * next, so that one seed always gives one sequence.
 */
#ifndef FUZZ_H
#define FUZZ_H

#define _GNU_SOURCE
#define _LARGEFILE64_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum {
    SIDES = 2,
    NAMES = 8,
    SLOTS = 20,
    STREAMS = 4,
    MAPS = 4,
    RING = 20,
    PAGE = 4096,
    PATH_ROOM = 512,
    IO_MAX = 1 << 20,   /* the longest single read or write */
    FILE_MAX = 4 << 20, /* longer files are cut back after the step */
    POOL = 2 * IO_MAX + PAGE,
    BUFFER = FILE_MAX + 2 * IO_MAX,
};

/* A descriptor of each side, opened by the same call. */
struct slot {
    bool used;
    int fd[SIDES];
    long size;   /* when it was last looked at: what is drawn may rest on it, what is compared may not */
    mode_t mode; /* what it is */
    struct timespec written; /* when side 0 was last written through it; zero if mtime is known to be up to date */
};

/* A stream of each side. */
struct stream {
    FILE *at[SIDES];
};

/* A shared mapping of each side. */
struct map {
    unsigned char *at[SIDES];
    size_t length;
    bool writable;
};

/* One step: what was called and what came of it. */
struct call {
    const char *name; /* NULL: there was nothing to do it on */
    int slot;         /* whose offset and size are compared afterwards, or -1 */
    int fd[SIDES];
    long size;   /* of the slot's file, before the call */
    mode_t mode; /* of the slot's file; 0 for a bad descriptor */
    long a, b, c;
    long ret[SIDES];
    int err[SIDES];
};

struct options {
    uint64_t seed;
    long ops;
    long check_every;
    long sabotage; /* the step that changes a byte of side 0, to show that it is found; 0: none */
    bool strict;   /* mtime is exact after each write */
    bool bare;     /* run by --child without the library: shared descriptions are not made to append */
    bool holes;    /* compare where holes are, and the allocated blocks */
    bool full;     /* two tiny file systems that fill up */
    bool raw_position;
    bool signals;
    bool trace;
    const char *directory[SIDES];
};

struct world {
    struct options options;
    const char *program; /* absolute path of this program, for exec */
    uint64_t random;
    long step;
    int slots_max; /* few: files are open once, as a lease wants them; many: they are shared */
    bool quiet;
    int depth; /* 0 in the first process, 1 in its children */
    int directory[SIDES];
    char path[SIDES][NAMES][PATH_ROOM];
    struct slot slots[SLOTS];
    struct stream streams[STREAMS];
    struct map maps[MAPS];
    unsigned char *pool;             /* what is written: random bytes, POOL of them */
    unsigned char *buffer[SIDES];    /* what is read into */
    unsigned char *straddle[SIDES];  /* a page, followed by one that cannot be touched */
    unsigned char *read_only;        /* a page that cannot be written */
    struct call ring[RING];
    uint64_t ring_at;
    bool failed;
    char difference[256];
};

extern struct world w;

typedef void (*operation)(struct call *);

/* May be done in a child, too; takes a file away from the fast path, and is seldom done in a quiet stretch. */
enum { CHILD = 1, DISTURBS = 2 };

struct entry {
    const char *name;
    int weight;
    operation run;
    int when; /* CHILD and DISTURBS, or neither */
    long done, ok;
};

/* An operation that costs a millisecond and more: done once in `every` steps, by the first process alone. */
struct rare {
    const char *name;
    long every;
    operation run;
    long done;
};

/* What each part offers; each table ends with a NULL name. */
extern struct entry io_entries[], file_entries[], process_entries[], more_entries[];
extern struct rare rare_entries[], thread_entries[];

/* The next random number (splitmix64). */
uint64_t draw(void);
/* From 0 to below `n`. */
static inline long below(long n) { return (long)(draw() % (uint64_t)n); }
static inline bool one_in(long n) { return below(n) == 0; }

/* A system call that no library sees; -errno on failure. */
static inline long raw(long number, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory");
    return x0;
#else
#error "the fuzzer needs its own system calls on this machine"
#endif
}

#define RAW(number, ...) RAW_(number, __VA_ARGS__, 0, 0, 0, 0, 0, 0)
#define RAW_(number, a, b, c, d, e, f, ...) \
    raw(number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

/* Does `expression` on both sides; `s` is the side in it. */
#define BOTH(call, expression)                                          \
    for (int s = 0; s < SIDES; s++) {                                   \
        errno = 0;                                                      \
        (call)->ret[s] = (long)(expression);                            \
        (call)->err[s] = (call)->ret[s] == -1 ? errno : 0;              \
    }
/* The same with a system call that no library sees. */
#define BOTH_RAW(call, expression)                                      \
    for (int s = 0; s < SIDES; s++) {                                   \
        long result_ = (expression);                                    \
        (call)->ret[s] = result_ < 0 ? -1 : result_;                    \
        (call)->err[s] = result_ < 0 ? (int)-result_ : 0;               \
    }

/* Notes a difference; the step ends the run. */
void differ(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Notes a difference unless both are the same. */
void same(const char *what, long served, long plain);
/* Compares what was read on both sides. */
void same_bytes(const char *what, const void *served, const void *plain, size_t length);

/* Takes a slot that is in use, or now and then a bad descriptor (slot -1); false if there is none. */
bool take_slot(struct call *call, bool with_bad);
/* An unused slot, or -1. */
int free_slot(void);
/* Puts what an opening call returned in a slot, and 0 in its place: numbers are not compared. */
void keep(struct call *call, int slot);
/* Looks up what the plain descriptor of a slot is. */
void look_at(int slot);
/* Forgets a slot whose descriptors are closed. */
void forget(int slot);
/* The slot has been written through now. */
void wrote(struct call *call, struct timespec before);
/* Side 0's mtime must not be before the last write through the slot. */
void check_mtime(int slot, const struct stat *found, const char *after);
struct timespec coarse_now(void);
bool is_regular(const struct call *call);
/* Whether another process takes turns on shared descriptions. */
bool has_companion(void);

/* Lengths and offsets, most of them small and in bounds. */
size_t draw_length(void);
long draw_offset(long size);

/* Runs one step on both sides and compares; false on a difference. */
bool step(void);
/* Runs `steps` steps in a child; the exit code is 1 on a difference. */
int run_child(uint64_t seed, long steps);
/* Compares the names, the sizes and all contents of both sides. */
void check_all(void);
/* Prints the difference and the last steps. */
void report(void);
/* Ends the child that lives beside this process, and closes all streams. */
void end_children(void);
/* Begins the signals that read and write while a step runs; and whether they read what they should. */
void start_signals(void);
void check_signals(void);
/* Keeps the timer's signals away from what they would cut short. */
void hold_timer(bool hold);
/* Sets up paths and buffers; `reset` empties the directories. */
void prepare(bool reset);

#endif
