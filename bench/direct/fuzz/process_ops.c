/* Children that share descriptions, programs that inherit descriptors, and streams. */
#include "fuzz.h"

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

/* The child that lives beside this process and does a step whenever it is told to. */
static struct {
    pid_t pid;
    int requests, answers;
} companion;

/* Waits for a child: 0 if it found no difference. */
static long end_of(pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFSIGNALED(status)) {
        differ("a child was killed by signal %d", WTERMSIG(status));
        return -1;
    }
    if (WEXITSTATUS(status) != 0)
        differ("a child failed with exit code %d (see above)", WEXITSTATUS(status));
    return 0;
}

static pid_t child_of(pid_t pid, uint64_t seed, long steps)
{
    if (pid == 0)
        _exit(run_child(seed, steps));
    if (pid < 0)
        abort();
    return pid;
}

static void op_fork(struct call *call)
{
    uint64_t seed = draw();
    long steps = 1 + below(20);
    call->a = steps;
    end_of(child_of(fork(), seed, steps));
}

/* Without what fork() tells libraries. */
static void op_copy(struct call *call)
{
    uint64_t seed = draw();
    long steps = 1 + below(20);
    call->a = steps;
    bool raw = one_in(2);
    end_of(child_of(raw ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : _Fork(), seed, steps));
}

/* A daemon's habit: closes all numbers that it knows nothing of. What the library keeps must survive that. */
static void op_close_all(struct call *call)
{
    uint64_t seed = draw();
    pid_t pid = fork();
    if (pid == 0) {
        bool ours[1024] = {true, true, true};
        for (int s = 0; s < SIDES; s++) {
            ours[w.directory[s]] = true;
            for (int i = 0; i < SLOTS; i++)
                if (w.slots[i].used && w.slots[i].fd[s] < 1024)
                    ours[w.slots[i].fd[s]] = true;
            for (int i = 0; i < STREAMS; i++)
                if (w.streams[i].at[s])
                    ours[fileno(w.streams[i].at[s])] = true;
        }
        for (int fd = 3; fd < 1024; fd++)
            if (!ours[fd])
                close(fd);
        _exit(run_child(seed, 20));
    }
    if (pid < 0)
        abort();
    call->a = 20;
    end_of(pid);
}

static void companion_loop(int requests, int answers)
{
    uint64_t seed;
    while (RAW(SYS_read, requests, &seed, sizeof seed) == sizeof seed) {
        char answer = (char)run_child(seed, 1);
        if (RAW(SYS_write, answers, &answer, 1) != 1)
            break;
    }
    _exit(0);
}

bool has_companion(void)
{
    return companion.pid != 0;
}

static void end_companion(void)
{
    close(companion.requests);
    close(companion.answers);
    end_of(companion.pid);
    companion.pid = 0;
}

/* Parent and child take turns on descriptions that they share. */
static void op_companion(struct call *call)
{
    if (!companion.pid) {
        int ask[2], tell[2];
        call->name = "companion starts";
        if (pipe2(ask, O_CLOEXEC) != 0 || pipe2(tell, O_CLOEXEC) != 0)
            abort();
        pid_t pid = fork();
        if (pid == 0) {
            close(ask[1]);
            close(tell[0]);
            companion_loop(ask[0], tell[1]);
        }
        if (pid < 0)
            abort();
        close(ask[0]);
        close(tell[1]);
        companion.pid = pid;
        companion.requests = ask[1];
        companion.answers = tell[0];
        return;
    }
    if (one_in(60)) {
        call->name = "companion ends";
        end_companion();
        return;
    }
    call->name = "companion steps";
    uint64_t seed = draw();
    char answer = 2;
    if (RAW(SYS_write, companion.requests, &seed, sizeof seed) != sizeof seed)
        differ("the companion is gone");
    long got;
    while ((got = RAW(SYS_read, companion.answers, &answer, 1)) == -EINTR) {
    }
    if (got != 1 || answer != 0)
        differ("the companion found a difference (see above) or died");
}

/* ---- Programs: this one again, with descriptors inherited, with and without the library. */

struct program {
    char *arguments[16];
    char **environment;
    char text[8][32];
    char slots[SLOTS * 40];
};

static void prepare_program(struct program *p, uint64_t seed, long steps, bool bare)
{
    int n = 0;
    size_t at = 0;
    p->slots[0] = 0;
    for (int i = 0; i < SLOTS; i++) {
        struct slot *slot = &w.slots[i];
        if (!slot->used || (RAW(SYS_fcntl, slot->fd[0], F_GETFD) & FD_CLOEXEC)
            || (RAW(SYS_fcntl, slot->fd[1], F_GETFD) & FD_CLOEXEC))
            continue;
        at += (size_t)snprintf(p->slots + at, sizeof p->slots - at, "%d:%d:%d,", i, slot->fd[0], slot->fd[1]);
    }
    snprintf(p->text[0], sizeof p->text[0], "%llu", (unsigned long long)seed);
    snprintf(p->text[1], sizeof p->text[1], "%ld", steps);
    p->arguments[n++] = (char *)w.program;
    p->arguments[n++] = "--child";
    p->arguments[n++] = p->slots;
    p->arguments[n++] = "--seed";
    p->arguments[n++] = p->text[0];
    p->arguments[n++] = "--ops";
    p->arguments[n++] = p->text[1];
    if (w.options.strict)
        p->arguments[n++] = "--strict";
    if (bare || w.options.bare)
        p->arguments[n++] = "--bare";
    if (!w.options.holes)
        p->arguments[n++] = "--no-holes";
    if (w.options.full)
        p->arguments[n++] = "--full";
    p->arguments[n++] = (char *)w.options.directory[0];
    p->arguments[n++] = (char *)w.options.directory[1];
    p->arguments[n] = NULL;
    p->environment = environ;
    if (bare) {
        static char *without[512];
        int count = 0;
        for (char **each = environ; *each && count < 511; each++)
            if (strncmp(*each, "LD_PRELOAD=", 11) != 0)
                without[count++] = *each;
        without[count] = NULL;
        p->environment = without;
    }
}

static void op_program(struct call *call)
{
    static const char *const names[] = {"exec", "exec without the library", "posix_spawn", "vfork and exec", "system"};
    struct program program;
    int kind = (int)below(5);
    uint64_t seed = draw();
    long steps = 1 + below(30);
    call->name = names[kind];
    call->a = steps;
    prepare_program(&program, seed, steps, kind == 1);
    pid_t pid;
    if (kind == 4) {
        char line[2 * PATH_ROOM + SLOTS * 40];
        size_t at = 0;
        for (char **each = program.arguments; *each; each++)
            at += (size_t)snprintf(line + at, sizeof line - at, "'%s' ", *each);
        int status = system(line);
        if (status != 0)
            differ("a program started by system() failed with status %d", status);
        return;
    }
    if (kind == 2) {
        if (posix_spawn(&pid, w.program, NULL, NULL, program.arguments, program.environment) != 0)
            abort();
    } else {
        pid = kind == 3 ? vfork() : fork();
        if (pid == 0) {
            execve(w.program, program.arguments, program.environment);
            _exit(9);
        }
    }
    if (pid < 0)
        abort();
    end_of(pid);
}

/* ---- Streams: their calls inside of libc are seen by no library. */

static const char *const MODES[] = {"r", "r+", "w", "w+", "a", "a+", "r+", "re"};

static void op_stream_open(struct call *call)
{
    int place = (int)below(STREAMS);
    struct stream *stream = &w.streams[place];
    if (stream->at[0]) {
        call->name = NULL;
        return;
    }
    const char *mode = MODES[below(8)];
    if (w.options.bare && mode[0] == 'a')
        mode = "r";
    int name = (int)below(NAMES), kind = (int)below(3), buffering = (int)below(3);
    call->a = name;
    if (kind == 2 && (!take_slot(call, false) || !is_regular(call)))
        kind = 0;
    int slot = call->slot;
    static const char *const names[] = {"fopen", "fopen64", "fdopen"};
    call->name = names[kind];
    for (int s = 0; s < SIDES; s++) {
        errno = 0;
        stream->at[s] = kind == 0   ? fopen(w.path[s][name], mode)
                        : kind == 1 ? fopen64(w.path[s][name], mode)
                                    : fdopen(w.slots[slot].fd[s], mode);
        call->ret[s] = stream->at[s] ? 0 : -1;
        call->err[s] = stream->at[s] ? 0 : errno;
        if (stream->at[s] && buffering == 1)
            setvbuf(stream->at[s], NULL, _IONBF, 0);
    }
    /* What one of them has, the other must have. */
    if (call->ret[0] != call->ret[1])
        return;
    if (kind == 2 && stream->at[0])
        forget(slot);
    call->slot = -1;
}

static long use_stream(int kind, FILE *f, int s, size_t length, long offset, int whence)
{
    switch (kind) {
    case 0: return (long)fread(w.buffer[s], 1, length, f);
    case 1: return (long)fwrite(w.pool + offset % 5000, 1, length, f);
    case 2: return fseek(f, offset, whence);
    case 3: return ftell(f);
    case 4: return fflush(f);
    case 5: return fgetc(f);
    case 6: return fprintf(f, "%ld and %zu\n", offset, length);
    case 7: return fseeko64(f, offset, SEEK_SET);
    case 8: return dprintf(fileno(f), "%ld\n", offset);
    case 9: return pread(fileno(f), w.buffer[s], length, offset);
    case 10: return pwrite(fileno(f), w.pool, length, offset);
    case 11: return lseek(fileno(f), 0, SEEK_CUR);
    default: return fclose(f);
    }
}

static void op_stream(struct call *call)
{
    struct stream *stream = &w.streams[below(STREAMS)];
    if (!stream->at[0]) {
        call->name = NULL;
        return;
    }
    static const char *const names[] = {"fread",   "fwrite",   "fseek",   "ftell", "fflush",        "fgetc", "fprintf",
                                        "fseeko64", "dprintf", "pread of a stream", "pwrite of a stream",
                                        "lseek of a stream", "fclose"};
    static const int whences[] = {SEEK_SET, SEEK_CUR, SEEK_END};
    int kind = (int)below(13);
    size_t length = (size_t)below(one_in(4) ? 20000 : 300);
    long offset = below(40000);
    int whence = whences[below(3)];
    if (whence == SEEK_CUR)
        offset -= 20000;
    call->name = names[kind];
    call->a = (long)length;
    call->b = offset;
    call->c = whence;
    for (int s = 0; s < SIDES; s++)
        memset(w.buffer[s], 0, kind == 0 || kind == 9 ? length : 0);
    if (offset < 0 && kind != 2)
        offset = -offset;
    BOTH(call, use_stream(kind, stream->at[s], s, length, offset, whence));
    if (kind == 0 || kind == 9)
        same_bytes("data of the stream", w.buffer[0], w.buffer[1], length);
    if (kind == 12)
        stream->at[0] = stream->at[1] = NULL;
}

/* Text straight to a descriptor: a write at its position that no library sees. */
static void op_dprintf(struct call *call)
{
    if (!take_slot(call, false) || !is_regular(call)) {
        call->name = NULL;
        return;
    }
    call->a = below(100000);
    BOTH(call, dprintf(call->fd[s], "%ld and more\n", call->a));
}

/* ---- Endings */

void end_children(void)
{
    if (companion.pid)
        end_companion();
    for (int i = 0; i < STREAMS; i++)
        for (int s = 0; s < SIDES; s++)
            if (w.streams[i].at[s]) {
                fclose(w.streams[i].at[s]);
                w.streams[i].at[s] = NULL;
            }
}

struct entry process_entries[] = {
    {"companion", 8, op_companion, DISTURBS, 0, 0},
    {"stream open", 6, op_stream_open, CHILD | DISTURBS, 0, 0},
    {"stream", 40, op_stream, CHILD, 0, 0},
    {"dprintf", 3, op_dprintf, CHILD | DISTURBS, 0, 0},
    {NULL, 0, NULL, 0, 0, 0},
};

struct rare rare_entries[] = {
    {"fork", 4000, op_fork, 0},
    {"copy", 6000, op_copy, 0},
    {"close all", 15000, op_close_all, 0},
    {"program", 12000, op_program, 0},
    {NULL, 0, NULL, 0},
};
