/* Phases in which threads or processes work on one file at a time.
 *
 * They are done on one side after the other. What depends on who was first is checked against what must hold (a record
 * is of one writer, a byte of one range has its owner's last value), and is overwritten before the sides are compared.
 */
#include "fuzz.h"

#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

enum {
    WORKERS = 4,
    RANGE = 65536 + 13, /* so that neighbours share pages and cache lines */
    RECORD = 64,
    RECORDS = 600,
    ROUNDS = 40,
};

struct worker {
    int side, number, fd;
    uint64_t random;
    int rounds;
    const char *wrong;
    unsigned char *model; /* what the range must contain */
    unsigned char *seen;
    unsigned char *met; /* per record: how often it was read */
};

static uint64_t next(struct worker *k)
{
    uint64_t z = k->random += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* A file of this phase, opened twice; both descriptors serve. */
static void open_scratch(int side, int fd[2], int flags)
{
    char path[PATH_ROOM];
    snprintf(path, sizeof path, "%s/scratch", w.options.directory[side]);
    fd[0] = open(path, O_RDWR | O_CREAT | O_TRUNC | flags, 0644);
    fd[1] = open(path, O_RDWR | flags);
    unlink(path);
    if (fd[0] < 0 || fd[1] < 0) {
        differ("the scratch file of side %d cannot be opened: errno %d", side, errno);
    }
}

static void close_scratch(int fd[2])
{
    close(fd[0]);
    close(fd[1]);
}

/* Runs `body` in `count` threads, or in as many processes; `wrong` of the first that found something. */
static const char *run_workers(struct worker *workers, int count, void *(*body)(void *), bool processes)
{
    const char *wrong = NULL;
    if (processes) {
        pid_t pids[WORKERS];
        for (int i = 0; i < count; i++) {
            pids[i] = fork();
            if (pids[i] == 0) {
                body(&workers[i]);
                _exit(workers[i].wrong != NULL);
            }
            if (pids[i] < 0)
                abort();
        }
        for (int i = 0; i < count; i++) {
            int status;
            while (waitpid(pids[i], &status, 0) < 0 && errno == EINTR) {
            }
            if (status != 0)
                wrong = "a process found wrong data or died";
        }
        return wrong;
    }
    pthread_t threads[WORKERS];
    for (int i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, body, &workers[i]) != 0)
            abort();
    for (int i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
        if (workers[i].wrong)
            wrong = workers[i].wrong;
    }
    return wrong;
}

static void *disjoint(void *argument)
{
    struct worker *k = argument;
    long base = (long)k->number * RANGE;
    for (int i = 0; i < k->rounds && !k->wrong; i++) {
        long at = (long)(next(k) % RANGE), length = 1 + (long)(next(k) % (i % 8 ? 5000 : RANGE));
        if (length > RANGE - at)
            length = RANGE - at;
        if (next(k) % 2) {
            const unsigned char *from = w.pool + next(k) % IO_MAX;
            if (pwrite(k->fd, from, (size_t)length, base + at) != length)
                k->wrong = "a write was cut short";
            memcpy(k->model + at, from, (size_t)length);
        } else {
            if (pread(k->fd, k->seen, (size_t)length, base + at) != length)
                k->wrong = "a read was cut short";
            else if (memcmp(k->seen, k->model + at, (size_t)length) != 0)
                k->wrong = "a range does not have what its owner wrote";
        }
    }
    return NULL;
}

/* Each has a range of its own. */
static void phase_disjoint(struct call *call)
{
    int count = 2 + (int)below(3);
    bool processes = one_in(3), filled = one_in(2);
    uint64_t seed = draw();
    call->name = processes ? "disjoint ranges, processes" : "disjoint ranges, threads";
    call->a = count;
    static unsigned char model[WORKERS][RANGE], seen[WORKERS][RANGE];
    for (int s = 0; s < SIDES; s++) {
        int fd[2];
        struct worker workers[WORKERS];
        open_scratch(s, fd, 0);
        memset(model, 0, sizeof model);
        if (filled)
            for (int i = 0; i < count; i++)
                call->ret[s] += pwrite(fd[0], model[i], RANGE, (long)i * RANGE);
        else
            call->ret[s] = ftruncate(fd[0], (long)count * RANGE);
        for (int i = 0; i < count; i++)
            workers[i] = (struct worker){.side = s, .number = i, .fd = fd[i % 2], .random = seed + (uint64_t)i,
                                         .rounds = ROUNDS, .model = model[i], .seen = seen[i]};
        const char *wrong = run_workers(workers, count, disjoint, processes);
        if (wrong)
            differ("side %d: %s", s, wrong);
        for (int i = 0; i < count && !processes; i++)
            if (RAW(SYS_pread64, fd[0], seen[i], RANGE, (long)i * RANGE) != RANGE
                || memcmp(seen[i], model[i], RANGE) != 0)
                differ("side %d: the kernel's view of range %d is not what was written", s, i);
        close_scratch(fd);
    }
}

static void *read_records(void *argument)
{
    struct worker *k = argument;
    uint32_t record[RECORD / 4];
    ssize_t got;
    while ((got = read(k->fd, record, RECORD)) == RECORD) {
        if (record[0] >= RECORDS || record[0] != record[RECORD / 4 - 1])
            k->wrong = "a record is torn";
        else
            __atomic_fetch_add(&k->met[record[0]], 1, __ATOMIC_RELAXED);
    }
    if (got != 0)
        k->wrong = "a read at a shared position gave part of a record";
    return NULL;
}

static void *write_records(void *argument)
{
    struct worker *k = argument;
    uint32_t record[RECORD / 4];
    for (int i = 0; i < k->rounds; i++) {
        for (int j = 0; j < RECORD / 4; j++)
            record[j] = (uint32_t)(k->number * k->rounds + i);
        if (write(k->fd, record, RECORD) != RECORD)
            k->wrong = "a record was not written";
    }
    return NULL;
}

/* Threads share one position: each record is written once, and read once. */
static void phase_position(struct call *call)
{
    int count = 2 + (int)below(2), kind = (int)below(3);
    bool processes = one_in(3);
    static const char *const names[] = {"one position", "appending", "one position, over old records"};
    call->name = names[kind];
    call->a = count;
    call->b = processes;
    int rounds = RECORDS / count;
    for (int s = 0; s < SIDES; s++) {
        int fd[2];
        struct worker workers[WORKERS];
        unsigned char met[RECORDS] = {0};
        open_scratch(s, fd, kind == 1 ? O_APPEND : 0);
        if (kind == 2 && pwrite(fd[0], w.pool, RECORDS * RECORD, 0) != RECORDS * RECORD)
            differ("side %d: the scratch file cannot be filled", s);
        for (int i = 0; i < count; i++)
            workers[i] = (struct worker){.side = s, .number = i, .fd = kind == 1 ? fd[i % 2] : fd[0],
                                         .rounds = rounds, .met = met};
        const char *wrong = run_workers(workers, count, write_records, processes);
        if (!wrong) {
            if (kind == 1)
                same("length of what was appended", lseek(fd[1], 0, SEEK_END), (long)rounds * count * RECORD);
            else
                same("position after the writes", lseek(fd[0], 0, SEEK_CUR), (long)rounds * count * RECORD);
            if (ftruncate(fd[0], (long)rounds * count * RECORD) != 0 || lseek(fd[0], 0, SEEK_SET) != 0)
                differ("side %d: cannot go back", s);
            for (int i = 0; i < count; i++)
                workers[i].fd = fd[0];
            wrong = run_workers(workers, count, read_records, false);
        }
        if (wrong)
            differ("side %d: %s", s, wrong);
        for (int i = 0; i < rounds * count && !w.failed; i++)
            if (met[i] != 1)
                differ("side %d: record %d was met %d times", s, i, met[i]);
        close_scratch(fd);
    }
}

static void *contend(void *argument)
{
    struct worker *k = argument;
    memset(k->seen, 'a' + k->number, 20000);
    for (int i = 0; i < k->rounds; i++)
        if (pwrite(k->fd, k->seen, 20000, 111) != 20000)
            k->wrong = "a write was cut short";
    return NULL;
}

/* All write the same record: in the end it is of one writer. */
static void phase_contend(struct call *call)
{
    int count = 2 + (int)below(3);
    bool processes = one_in(2);
    call->name = processes ? "one record, processes" : "one record, threads";
    call->a = count;
    static unsigned char seen[WORKERS][20000];
    for (int s = 0; s < SIDES; s++) {
        int fd[2];
        struct worker workers[WORKERS];
        open_scratch(s, fd, 0);
        call->ret[s] = pwrite(fd[1], w.pool, 30000, 0);
        for (int i = 0; i < count; i++)
            workers[i] = (struct worker){.side = s, .number = i, .fd = fd[i % 2], .rounds = 20, .seen = seen[i]};
        const char *wrong = run_workers(workers, count, contend, processes);
        if (wrong)
            differ("side %d: %s", s, wrong);
        if (RAW(SYS_pread64, fd[0], seen[0], 20000, 111) != 20000)
            differ("side %d: the record is gone", s);
        for (int i = 1; i < 20000 && !w.failed; i++)
            if (seen[0][i] != seen[0][0])
                differ("side %d: the record is of two writers", s);
        close_scratch(fd);
    }
}

/* What an overlapping writer writes, and by which call. */
static struct overlap {
    long from, length;
    int way;
} overlaps[WORKERS];

static void *overlap(void *argument)
{
    struct worker *k = argument;
    struct overlap *o = &overlaps[k->number];
    memset(k->seen, 'a' + k->number, (size_t)o->length);
    struct iovec halves[] = {{k->seen, (size_t)o->length / 2},
                             {k->seen + o->length / 2, (size_t)(o->length - o->length / 2)}};
    for (int i = 0; i < k->rounds; i++) {
        long done;
        if (o->way == 0)
            done = pwrite(k->fd, k->seen, (size_t)o->length, o->from);
        else if (o->way == 1)
            done = pwritev(k->fd, halves, 2, o->from);
        else if (lseek(k->fd, o->from, SEEK_SET) != o->from)
            done = -1;
        else
            done = o->way == 2 ? write(k->fd, k->seen, (size_t)o->length) : writev(k->fd, halves, 2);
        if (done != o->length)
            k->wrong = "a write was cut short";
    }
    return NULL;
}

/* Whether the bytes that two wrote are of one of them, where no third wrote over them. */
static bool is_of_one(const unsigned char *seen, int one, int other)
{
    long from = overlaps[one].from > overlaps[other].from ? overlaps[one].from : overlaps[other].from;
    long one_end = overlaps[one].from + overlaps[one].length, end = overlaps[other].from + overlaps[other].length;
    end = one_end < end ? one_end : end;
    bool met[2] = {false, false};
    for (long at = from; at < end; at++) {
        met[0] |= seen[at] == 'a' + one;
        met[1] |= seen[at] == 'a' + other;
    }
    return !(met[0] && met[1]);
}

/* Each writes a range of its own that overlaps the others', by a description of its own, in its own way. */
static void phase_overlap(struct call *call)
{
    enum { MIDDLE = 150000, LENGTH_MAX = 140000, FILE_BYTES = 300000 };
    int count = 2 + (int)below(3);
    bool processes = one_in(2);
    call->name = processes ? "overlapping ranges, processes" : "overlapping ranges, threads";
    call->a = count;
    long largest = one_in(2) ? 9000 : LENGTH_MAX;
    for (int i = 0; i < count; i++) {
        long before = 1 + below(largest), after = 1 + below(largest);
        overlaps[i] = (struct overlap){MIDDLE - before, before + after, (int)below(4)};
    }
    static unsigned char seen[WORKERS][2 * LENGTH_MAX], all[FILE_BYTES];
    for (int s = 0; s < SIDES; s++) {
        int fd[2], own[WORKERS];
        char path[64];
        struct worker workers[WORKERS];
        open_scratch(s, fd, 0);
        call->ret[s] = pwrite(fd[1], w.pool, FILE_BYTES, 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd[0]);
        for (int i = 0; i < count; i++) {
            /* One that cannot be mapped is among them now and then: the kernel writes for it. */
            own[i] = open(path, overlaps[i].from % 5 ? O_RDWR : O_WRONLY);
            workers[i] = (struct worker){.side = s, .number = i, .fd = own[i], .rounds = 20, .seen = seen[i]};
        }
        const char *wrong = run_workers(workers, count, overlap, processes);
        if (wrong)
            differ("side %d: %s", s, wrong);
        if (RAW(SYS_pread64, fd[0], all, FILE_BYTES, 0) != FILE_BYTES)
            differ("side %d: the file is cut", s);
        for (int i = 0; i < count; i++)
            for (int j = 0; j < i && !w.failed; j++)
                if (!is_of_one(all, i, j))
                    differ("side %d: the writes of %d and %d are mixed", s, j, i);
        for (int i = 0; i < count; i++)
            close(own[i]);
        close_scratch(fd);
    }
}

static void *race_reader(void *argument)
{
    struct worker *k = argument;
    for (int i = 0; i < k->rounds && !k->wrong; i++) {
        long at = (long)(next(k) % 200000), length = 1 + (long)(next(k) % 9000);
        ssize_t got = pread(k->fd, k->seen, (size_t)length, at);
        if (got < 0 || got > length)
            k->wrong = "a read beside a truncation failed";
        for (ssize_t j = 0; j < got && !k->wrong; j++)
            if (k->seen[j] != 0 && k->seen[j] != (unsigned char)(0x80 | ((at + j) & 0x3F)))
                k->wrong = "a read beside a truncation gave what nobody wrote";
    }
    return NULL;
}

static void *race_cutter(void *argument)
{
    struct worker *k = argument;
    for (int i = 0; i < k->rounds / 4; i++) {
        long at = (long)(next(k) % 200000);
        if (next(k) % 2) {
            RAW(SYS_ftruncate, k->fd, at);
            RAW(SYS_ftruncate, k->fd, 200000);
        } else {
            RAW(SYS_fallocate, k->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, 30000);
        }
        RAW(SYS_pwrite64, k->fd, k->model, 200000, 0);
    }
    return NULL;
}

static void *race(void *argument)
{
    struct worker *k = argument;
    return k->number == 0 ? race_cutter(k) : race_reader(k);
}

/* One truncates, punches and fills again, unseen; the others read. Nothing may crash or invent bytes. */
static void phase_truncate(struct call *call)
{
    int count = 2 + (int)below(2);
    bool processes = one_in(2);
    uint64_t seed = draw();
    call->name = processes ? "truncated beside readers, processes" : "truncated beside readers, threads";
    static unsigned char seen[WORKERS][9000], model[200000];
    for (int i = 0; i < 200000; i++)
        model[i] = (unsigned char)(0x80 | (i & 0x3F));
    for (int s = 0; s < SIDES; s++) {
        int fd[2];
        struct worker workers[WORKERS];
        open_scratch(s, fd, 0);
        call->ret[s] = pwrite(fd[1], model, 200000, 0) + pread(fd[1], seen[0], 5000, 0);
        for (int i = 0; i < count; i++)
            workers[i] = (struct worker){.side = s, .number = i, .fd = fd[i % 2], .random = seed + (uint64_t)i,
                                         .rounds = 60, .seen = seen[i], .model = model};
        const char *wrong = run_workers(workers, count, race, processes);
        if (wrong)
            differ("side %d: %s", s, wrong);
        close_scratch(fd);
    }
}

/* A writer is killed in the middle; another must be able to go on. */
static void phase_kill(struct call *call)
{
    long spins = below(200000);
    call->name = "writer killed";
    for (int s = 0; s < SIDES; s++) {
        int fd[2], ready[2];
        char byte;
        open_scratch(s, fd, 0);
        call->ret[s] = pwrite(fd[0], w.pool, 300000, 0);
        if (pipe2(ready, O_CLOEXEC) != 0)
            abort();
        pid_t pid = fork();
        if (pid == 0) {
            for (long i = 0;; i++) {
                pwrite(fd[i & 1], w.pool + i % 1000, 250000, i % 5000);
                if (i == 1)
                    RAW(SYS_write, ready[1], "x", 1);
            }
        }
        if (pid < 0 || RAW(SYS_read, ready[0], &byte, 1) != 1)
            abort();
        for (volatile long i = 0; i < spins; i++) {
        }
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        call->ret[s] += pwrite(fd[1], w.pool + 9, 300000, 0);
        if (pread(fd[0], w.buffer[s], 300000, 0) != 300000 || memcmp(w.buffer[s], w.pool + 9, 300000) != 0)
            differ("side %d: a write after a killed writer is not what is read", s);
        close(ready[0]);
        close(ready[1]);
        close_scratch(fd);
    }
}

/* ---- Signals: a handler reads and writes in the middle of whatever goes on. */

static int of_handler = -1;
static unsigned char handler_bytes[256];
static volatile sig_atomic_t handler_wrong;

static void on_timer(int number)
{
    (void)number;
    int before = errno;
    unsigned char seen[256];
    if (pread(of_handler, seen, sizeof seen, 100) != sizeof seen || memcmp(seen, handler_bytes, sizeof seen) != 0)
        handler_wrong = 1;
    if (pwrite(of_handler, handler_bytes, sizeof seen, 100) != sizeof seen)
        handler_wrong = 1;
    if (handler_wrong)
        RAW(SYS_write, 2, "fuzz: the handler of a signal reads wrong data\n", 47);
    errno = before;
}

void start_signals(void)
{
    char path[PATH_ROOM];
    snprintf(path, sizeof path, "%s/of-the-handler", w.options.directory[0]);
    of_handler = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    unlink(path);
    memcpy(handler_bytes, w.pool, sizeof handler_bytes);
    if (of_handler < 0 || pwrite(of_handler, w.pool, 8192, 8192) != 8192
        || pwrite(of_handler, handler_bytes, sizeof handler_bytes, 100) != sizeof handler_bytes)
        abort();
    struct sigaction action = {.sa_handler = on_timer, .sa_flags = SA_RESTART};
    struct itimerval timer = {{0, 700}, {0, 700}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
}

void hold_timer(bool hold)
{
    sigset_t timer;
    sigemptyset(&timer);
    sigaddset(&timer, SIGALRM);
    if (w.options.signals)
        sigprocmask(hold ? SIG_BLOCK : SIG_UNBLOCK, &timer, NULL);
}

void check_signals(void)
{
    if (handler_wrong)
        differ("the handler of a signal read wrong data");
}

struct rare thread_entries[] = {
    {"disjoint", 15000, phase_disjoint, 0},
    {"position", 12000, phase_position, 0},
    {"contend", 20000, phase_contend, 0},
    {"overlap", 20000, phase_overlap, 0},
    {"truncate", 30000, phase_truncate, 0},
    {"kill", 30000, phase_kill, 0},
    {NULL, 0, NULL, 0},
};
