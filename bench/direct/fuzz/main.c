/* fuzz [OPTIONS] SERVED PLAIN: does random operations on two directories and compares what comes of them.
 *
 * Exit codes: 0 no difference, 1 a difference (on stderr, with the seed and the last steps), 2 it could not run,
 * 3 a step took more than a minute.
 */
#include "fuzz.h"

#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>

void trace(const struct call *call);

static const char USAGE[] =
    "usage: fuzz [OPTIONS] SERVED PLAIN\n"
    "Both are directories of their own, on the same kind of file system; what is in them is removed.\n"
    "  --seed N          the same seed gives the same operations (1)\n"
    "  --ops N           how many operations (1000000)\n"
    "  --check-every N   compare all contents once in so many steps (2000)\n"
    "  --full            mount a tmpfs of 2 MiB on each, so that they fill up (as root, or in a user namespace)\n"
    "  --strict          mtime must be exact after each write\n"
    "  --no-holes        do not compare where holes are, nor the allocated blocks\n"
    "  --raw-position    also read, write and seek at the position by system calls that no library sees\n"
    "  --signals         a timer's handler reads and writes all the time\n"
    "  --sabotage STEP   change a byte of side SERVED at this step: must be found\n"
    "  --trace           print each step\n";

/* ---- One step */

static struct entry *const TABLES[] = {io_entries, file_entries, process_entries, more_entries};
enum { TABLES_COUNT = sizeof TABLES / sizeof *TABLES };
static struct rare *const RARE[] = {rare_entries, thread_entries};

static struct entry *draw_entry(void)
{
    static long total[2];
    int child = w.depth > 0;
    if (!total[child])
        for (int t = 0; t < TABLES_COUNT; t++)
            for (struct entry *each = TABLES[t]; each->name; each++)
                total[child] += !child || each->when & CHILD ? each->weight : 0;
    long at = below(total[child]);
    for (int t = 0; t < TABLES_COUNT; t++)
        for (struct entry *each = TABLES[t]; each->name; each++) {
            if (child && !(each->when & CHILD))
                continue;
            at -= each->weight;
            if (at < 0)
                return each;
        }
    abort();
}

/* A file that has grown too long is cut back on both sides, by calls that no library sees. */
static void cut_back(const struct call *call, long size)
{
    long length = below(IO_MAX / 4);
    if (size <= FILE_MAX)
        return;
    for (int s = 0; s < SIDES; s++) {
        char path[64];
        if (RAW(SYS_ftruncate, call->fd[s], length) == 0)
            continue;
        snprintf(path, sizeof path, "/proc/self/fd/%d", call->fd[s]);
        long fd = RAW(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CLOEXEC);
        if (fd < 0 || RAW(SYS_ftruncate, fd, length) != 0)
            differ("side %d: a file of %ld bytes cannot be cut back", s, size);
        RAW(SYS_close, fd);
    }
}

/* The sizes, and every other time the positions, are the same. */
static void check_slot(struct call *call)
{
    struct stat found[SIDES];
    bool position = one_in(2);
    for (int s = 0; s < SIDES; s++) {
        call->fd[s] = w.slots[call->slot].fd[s];
        if (RAW(SYS_fstat, call->fd[s], &found[s]) != 0) {
            differ("side %d: the descriptor is gone", s);
            return;
        }
    }
    same("size", found[0].st_size, found[1].st_size);
    if (position && S_ISREG(found[0].st_mode))
        same("position", lseek(call->fd[0], 0, SEEK_CUR), lseek(call->fd[1], 0, SEEK_CUR));
    cut_back(call, found[1].st_size);
    w.slots[call->slot].size = found[1].st_size < FILE_MAX ? found[1].st_size : FILE_MAX;
}

static void check_result(struct call *call, const char *name)
{
    if (call->ret[0] != call->ret[1] || call->err[0] != call->err[1])
        differ("result of %s", name);
    if (!w.failed && call->slot >= 0 && w.slots[call->slot].used)
        check_slot(call);
}

static void run_rare(struct rare *rare)
{
    struct call *call = &w.ring[w.ring_at++ % RING];
    memset(call, 0, sizeof *call);
    call->name = rare->name;
    call->slot = -1;
    rare->run(call);
    rare->done++;
    check_result(call, call->name);
}

/* Every so often: how many descriptors there may be, and whether files are left to one reader and writer. */
static void begin_stretch(void)
{
    static const int few[] = {1, 2, 3, 5, SLOTS, SLOTS};
    w.slots_max = few[below(6)];
    w.quiet = w.slots_max < SLOTS || one_in(4);
    if (w.quiet && one_in(2))
        end_children();
    int used = 0;
    for (int i = 0; i < SLOTS; i++) {
        used += w.slots[i].used;
        if (!w.slots[i].used || used <= w.slots_max)
            continue;
        same("close", close(w.slots[i].fd[0]), close(w.slots[i].fd[1]));
        forget(i);
    }
}

bool step(void)
{
    w.step++;
    if (w.depth == 0 && w.step % 500 == 1)
        begin_stretch();
    for (int t = 0; t < 2 && w.depth == 0; t++)
        for (struct rare *each = RARE[t]; each->name && !w.failed; each++)
            if (one_in(each->every) && !(t == 1 && w.options.full))
                run_rare(each);
    while (!w.failed) {
        struct entry *entry = draw_entry();
        if (w.quiet && entry->when & DISTURBS && !one_in(10))
            continue;
        struct call *call = &w.ring[w.ring_at % RING];
        memset(call, 0, sizeof *call);
        call->name = entry->name;
        call->slot = -1;
        entry->run(call);
        if (!call->name)
            continue;
        w.ring_at++;
        entry->done++;
        entry->ok += call->ret[1] >= 0;
        check_result(call, call->name);
        if (w.options.trace)
            trace(call);
        break;
    }
    if (w.options.signals)
        check_signals();
    return !w.failed;
}

int run_child(uint64_t seed, long steps)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    w.depth = 1;
    w.random = seed;
    for (long i = 0; i < steps; i++)
        if (!step()) {
            report();
            return 1;
        }
    return 0;
}

/* ---- The whole run */

static void on_watchdog(int number)
{
    (void)number;
    differ("a step takes more than a minute");
    report();
    _exit(3);
}

static void wind_watchdog(void)
{
    static timer_t timer;
    static bool made;
    struct itimerspec minute = {{0, 0}, {60, 0}};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGXCPU};
    if (!made) {
        signal(SIGXCPU, on_watchdog);
        made = timer_create(CLOCK_MONOTONIC, &event, &timer) == 0;
    }
    timer_settime(timer, 0, &minute, NULL);
}

/* Changes one byte of a file of side 0 behind everybody's back. */
static void sabotage(void)
{
    for (int name = 0; name < NAMES; name++) {
        unsigned char byte;
        long fd = RAW(SYS_openat, AT_FDCWD, w.path[0][name], O_RDWR | O_CLOEXEC);
        if (fd >= 0 && RAW(SYS_pread64, fd, &byte, 1, 0) == 1) {
            byte ^= 1;
            RAW(SYS_pwrite64, fd, &byte, 1, 0);
            RAW(SYS_close, fd);
            return;
        }
        if (fd >= 0)
            RAW(SYS_close, fd);
    }
    fprintf(stderr, "fuzz: there is no file to sabotage at this step\n");
    exit(2);
}

static int run(void)
{
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    if (w.options.signals)
        start_signals();
    for (long i = 1; i <= w.options.ops && !w.failed; i++) {
        if (i % 256 == 1)
            wind_watchdog();
        if (i == w.options.sabotage)
            sabotage();
        if (step() && i % w.options.check_every == 0)
            check_all();
    }
    if (!w.failed) {
        end_children();
        check_all();
    }
    if (w.failed) {
        report();
        return 1;
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    double seconds = (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
    printf("{\"seed\": %llu, \"ops\": %ld, \"seconds\": %.3f, \"ops_per_s\": %.0f, \"done\": {",
           (unsigned long long)w.options.seed, w.options.ops, seconds, (double)w.options.ops / seconds);
    for (int t = 0; t < TABLES_COUNT; t++)
        for (struct entry *each = TABLES[t]; each->name; each++)
            printf("\"%s\": [%ld, %ld], ", each->name, each->done, each->ok);
    for (int t = 0; t < 2; t++)
        for (struct rare *each = RARE[t]; each->name; each++)
            printf("%s\"%s\": [%ld, %ld]", each == rare_entries ? "" : ", ", each->name, each->done, each->done);
    printf("}}\n");
    return 0;
}

/* ---- The command line */

static bool write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0)
        close(fd);
    return done;
}

/* Mounts two tiny file systems and starts again, so that the library finds them in place. */
static int mount_full(char **arguments)
{
    uid_t user = getuid();
    gid_t group = getgid();
    char map[64];
    if (unshare(user == 0 ? CLONE_NEWNS : CLONE_NEWNS | CLONE_NEWUSER) != 0) {
        perror("fuzz: --full needs a mount namespace");
        return 2;
    }
    if (user != 0) {
        snprintf(map, sizeof map, "0 %u 1", user);
        bool mapped = write_text("/proc/self/setgroups", "deny") && write_text("/proc/self/uid_map", map);
        snprintf(map, sizeof map, "0 %u 1", group);
        if (!mapped || !write_text("/proc/self/gid_map", map)) {
            perror("fuzz: --full cannot map the user");
            return 2;
        }
    }
    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL);
    for (int s = 0; s < SIDES; s++)
        if (mount("fuzz", w.options.directory[s], "tmpfs", 0, "size=2m") != 0) {
            fprintf(stderr, "fuzz: a tmpfs on %s: %s\n", w.options.directory[s], strerror(errno));
            return 2;
        }
    setenv("FUZZ_MOUNTED", "1", 1);
    execv("/proc/self/exe", arguments);
    perror("fuzz: cannot start again");
    return 2;
}

/* The descriptors that the parent left: slot:served:plain,... */
static void inherit(const char *list)
{
    int slot, served, plain, taken;
    for (; sscanf(list, "%d:%d:%d,%n", &slot, &served, &plain, &taken) == 3; list += taken)
        if (slot >= 0 && slot < SLOTS) {
            w.slots[slot] = (struct slot){true, {served, plain}, 0, 0, {0, 0}};
            look_at(slot);
        }
}

int main(int count, char **arguments)
{
    static char program[PATH_ROOM];
    const char *slots = NULL;
    int directories = 0;
    w.options = (struct options){.seed = 1, .ops = 1000000, .check_every = 2000, .holes = true};
    for (int i = 1; i < count; i++) {
        char *word = arguments[i];
        char *value = i + 1 < count ? arguments[i + 1] : "";
        if (strcmp(word, "--seed") == 0)
            w.options.seed = strtoull(value, NULL, 0), i++;
        else if (strcmp(word, "--ops") == 0)
            w.options.ops = strtol(value, NULL, 0), i++;
        else if (strcmp(word, "--check-every") == 0)
            w.options.check_every = strtol(value, NULL, 0), i++;
        else if (strcmp(word, "--sabotage") == 0)
            w.options.sabotage = strtol(value, NULL, 0), i++;
        else if (strcmp(word, "--child") == 0)
            slots = value, i++;
        else if (strcmp(word, "--full") == 0)
            w.options.full = true;
        else if (strcmp(word, "--strict") == 0)
            w.options.strict = true;
        else if (strcmp(word, "--bare") == 0)
            w.options.bare = true;
        else if (strcmp(word, "--no-holes") == 0)
            w.options.holes = false;
        else if (strcmp(word, "--raw-position") == 0)
            w.options.raw_position = true;
        else if (strcmp(word, "--signals") == 0)
            w.options.signals = true;
        else if (strcmp(word, "--trace") == 0)
            w.options.trace = true;
        else if (word[0] != '-' && directories < SIDES)
            w.options.directory[directories++] = realpath(word, NULL);
        else
            directories = -SIDES - 1;
    }
    if (directories != SIDES || w.options.check_every < 1 || w.options.ops < 1) {
        fputs(USAGE, stderr);
        return 2;
    }
    for (int s = 0; s < SIDES; s++)
        if (!w.options.directory[s] || strlen(w.options.directory[s]) > PATH_ROOM - 32) {
            fprintf(stderr, "fuzz: directory %d does not exist or has too long a name\n", s + 1);
            return 2;
        }
    if (w.options.full && !slots && !getenv("FUZZ_MOUNTED"))
        return mount_full(arguments);
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    w.program = length > 0 ? program : arguments[0];
    w.random = w.options.seed * 0x2545F4914F6CDD1Du + 1;
    signal(SIGXFSZ, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    prepare(slots == NULL);
    if (slots) {
        inherit(slots);
        return run_child(w.options.seed, w.options.ops);
    }
    return run();
}
