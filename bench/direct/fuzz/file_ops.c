/* Descriptors, names, sizes, mappings and leases. */
#include "fuzz.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>

int __open_2(const char *, int);
int __openat_2(int, const char *, int);

/* ---- Opening and closing */

static int draw_flags(void)
{
    int flags = one_in(8) ? O_RDONLY : one_in(8) ? O_WRONLY : O_RDWR;
    if (one_in(200))
        flags = O_ACCMODE;
    if (!one_in(3))
        flags |= O_CREAT;
    static const int extra[] = {O_EXCL, O_TRUNC, O_APPEND, O_CLOEXEC, O_NONBLOCK, O_NOFOLLOW};
    static const int odds[] = {10, 12, 7, 3, 20, 20};
    for (int i = 0; i < 6; i++)
        if (one_in(odds[i]))
            flags |= extra[i];
    static const int rare[] = {O_DIRECT, O_SYNC, O_DSYNC, O_NOATIME, O_DIRECTORY, O_PATH, O_TMPFILE};
    if (one_in(40)) {
        int one = rare[below(7)];
        if (one == O_TMPFILE || one == O_DIRECTORY)
            flags &= ~(O_CREAT | O_EXCL);
        flags |= one;
    }
    return flags;
}

static const char *const OPENS[] = {"open",   "open64",        "openat",     "openat64",      "openat (at cwd)",
                                    "creat",  "creat64",       "__open_2",   "open (relative)", "open (link)",
                                    "open (dotted)", "__openat_2"};

static int open_by(int kind, int s, int name, int flags)
{
    char other[PATH_ROOM + 32];
    const char *path = w.path[s][name];
    const char *base = strrchr(path, '/') + 1;
    const char *root = w.options.directory[s];
    switch (kind) {
    case 0: return open(path, flags, 0644);
    case 1: return open64(path, flags, 0644);
    case 2: return openat(w.directory[s], base, flags, 0644);
    case 3: return openat64(w.directory[s], base, flags, 0644);
    case 4: return openat(AT_FDCWD, path, flags, 0644);
    case 5: return creat(path, 0644);
    case 6: return creat64(path, 0644);
    case 7: return __open_2(path, flags & ~(O_CREAT | O_TMPFILE));
    case 8: return fchdir(w.directory[s]) == 0 ? open(base, flags, 0644) : -1;
    case 9:
        snprintf(other, sizeof other, "%s/link%d", root, name % 2);
        return open(other, flags, 0644);
    case 10:
        snprintf(other, sizeof other, "%s/./sub/..//%s", root, base);
        return open(other, flags, 0644);
    default: return __openat_2(w.directory[s], base, flags & ~(O_CREAT | O_TMPFILE));
    }
}

/* The lowest number that an opening call may return, by a call that no library sees. */
static long lowest_number(void)
{
    long number = RAW(SYS_fcntl, 2, F_DUPFD, 0);
    if (number >= 0)
        RAW(SYS_close, number);
    return number;
}

static void op_open(struct call *call)
{
    int slot = free_slot();
    if (slot < 0) {
        call->name = NULL;
        return;
    }
    int kind = (int)below(12), name = (int)below(NAMES), flags = draw_flags();
    if ((kind == 5 || kind == 6) && !one_in(4))
        kind = 0;
    call->name = OPENS[kind];
    call->a = name;
    call->b = flags;
    bool numbered = one_in(16);
    for (int s = 0; s < SIDES; s++) {
        long lowest = numbered ? lowest_number() : -1;
        /* O_TMPFILE wants the directory. */
        errno = 0;
        if ((flags & O_TMPFILE) == O_TMPFILE)
            call->ret[s] = open(w.options.directory[s], flags, 0644);
        else
            call->ret[s] = open_by(kind, s, name, flags);
        call->err[s] = call->ret[s] == -1 ? errno : 0;
        if (numbered && call->ret[s] >= 0)
            same("lowest free descriptor", call->ret[s], lowest);
    }
    keep(call, slot);
}

/* The open file once more, by its number. */
static void op_reopen(struct call *call)
{
    int slot = free_slot();
    if (slot < 0 || !take_slot(call, false)) {
        call->name = NULL;
        return;
    }
    int flags = draw_flags() & ~(O_CREAT | O_EXCL | O_TMPFILE);
    call->a = call->slot;
    call->b = flags;
    for (int s = 0; s < SIDES; s++) {
        char path[64];
        snprintf(path, sizeof path, "/proc/self/fd/%d", call->fd[s]);
        errno = 0;
        call->ret[s] = open(path, flags);
        call->err[s] = call->ret[s] == -1 ? errno : 0;
    }
    keep(call, slot);
}

static void op_close(struct call *call)
{
    if (!take_slot(call, false)) {
        call->name = NULL;
        return;
    }
    int slot = call->slot;
    struct stat named, open_one;
    bool found = false;
    /* Its mtime is up to date when it is closed: look at it by name, if it has one. */
    if (one_in(4) && w.slots[slot].written.tv_sec && fstat(call->fd[0], &open_one) == 0)
        for (int name = 0; name < NAMES && !found; name++)
            found = RAW(SYS_newfstatat, AT_FDCWD, w.path[0][name], &named, AT_SYMLINK_NOFOLLOW) == 0
                    && named.st_ino == open_one.st_ino;
    for (int s = 0; s < SIDES; s++) {
        errno = 0;
        call->ret[s] = close(call->fd[s]);
        call->err[s] = call->ret[s] == -1 ? errno : 0;
        /* Nothing else may have taken the number. */
        same("read of a closed descriptor", read(call->fd[s], w.buffer[s], 1), -1);
        same("its errno", errno, EBADF);
    }
    if (found) {
        for (int name = 0; name < NAMES; name++)
            if (RAW(SYS_newfstatat, AT_FDCWD, w.path[0][name], &named, AT_SYMLINK_NOFOLLOW) == 0
                && named.st_ino == open_one.st_ino) {
                check_mtime(slot, &named, "close");
                break;
            }
    }
    forget(slot);
    call->a = slot;
    call->slot = -1;
}

static void op_dup(struct call *call)
{
    int slot = free_slot();
    if (slot < 0 || !take_slot(call, true)) {
        call->name = NULL;
        return;
    }
    int from = call->slot;
    static const char *const names[] = {"dup", "dup2 (new number)", "dup3 (new number)", "F_DUPFD", "F_DUPFD_CLOEXEC"};
    int kind = (int)below(5);
    /* A stream may have kept the number. */
    if (RAW(SYS_fcntl, 300 + slot * SIDES, F_GETFD) >= 0 || RAW(SYS_fcntl, 301 + slot * SIDES, F_GETFD) >= 0)
        kind = 3;
    call->name = names[kind];
    call->a = from;
    for (int s = 0; s < SIDES; s++) {
        int fd = call->fd[s], fresh = 300 + slot * SIDES + s;
        errno = 0;
        switch (kind) {
        case 0: call->ret[s] = dup(fd); break;
        case 1: call->ret[s] = dup2(fd, fresh); break;
        case 2: call->ret[s] = dup3(fd, fresh, O_CLOEXEC); break;
        case 3: call->ret[s] = fcntl(fd, F_DUPFD, 100); break;
        default: call->ret[s] = fcntl(fd, F_DUPFD_CLOEXEC, 100);
        }
        call->err[s] = call->ret[s] == -1 ? errno : 0;
    }
    if (call->ret[0] >= 0 && (kind == 1 || kind == 2))
        same("number given to dup2", call->ret[0], 300 + slot * SIDES);
    keep(call, slot);
}

/* One descriptor takes another's number. */
static void op_dup_over(struct call *call)
{
    struct call over = *call;
    if (!take_slot(call, true) || !take_slot(&over, false)) {
        call->name = NULL;
        return;
    }
    bool three = one_in(2);
    call->name = three ? "dup3 (over)" : "dup2 (over)";
    call->a = over.slot;
    BOTH(call, (three ? dup3(call->fd[s], over.fd[s], 0) : dup2(call->fd[s], over.fd[s])) < 0 ? -1 : 0);
    if (call->ret[0] == 0 && call->ret[1] == 0) {
        w.slots[over.slot].written = (struct timespec){0, 0};
        look_at(over.slot);
    }
}

/* The descriptor goes through a socket and comes back with another number. */
static void op_pass(struct call *call)
{
    int slot = free_slot();
    if (slot < 0 || !take_slot(call, false)) {
        call->name = NULL;
        return;
    }
    call->a = call->slot;
    for (int s = 0; s < SIDES; s++) {
        int ends[2];
        char byte = 1;
        union {
            char room[CMSG_SPACE(sizeof(int))];
            struct cmsghdr aligned;
        } control;
        struct iovec piece = {&byte, 1};
        struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control.room,
                                 .msg_controllen = sizeof control.room};
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
            abort();
        memset(&control, 0, sizeof control);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &call->fd[s], sizeof(int));
        errno = 0;
        call->ret[s] = -1;
        if (sendmsg(ends[0], &message, 0) == 1 && recvmsg(ends[1], &message, 0) == 1) {
            int got;
            memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof got);
            call->ret[s] = got;
        }
        call->err[s] = call->ret[s] == -1 ? errno : 0;
        close(ends[0]);
        close(ends[1]);
    }
    keep(call, slot);
}

static void op_fcntl(struct call *call)
{
    if (!take_slot(call, true)) {
        call->name = NULL;
        return;
    }
    switch (below(4)) {
    case 0:
        call->name = "F_GETFL";
        BOTH(call, fcntl(call->fd[s], F_GETFL));
        break;
    case 1:
        call->name = "F_SETFL";
        /* A program without the library tells nobody that a description that it shares appends from now on. */
        call->a = one_in(2) && !w.options.bare ? O_APPEND : one_in(2) ? O_NONBLOCK : 0;
        BOTH(call, fcntl(call->fd[s], F_SETFL, call->a));
        break;
    case 2:
        call->name = "F_SETFD";
        call->a = one_in(2) ? FD_CLOEXEC : 0;
        BOTH(call, fcntl(call->fd[s], F_SETFD, call->a));
        break;
    default:
        call->name = "F_GETFD";
        BOTH(call, fcntl64(call->fd[s], F_GETFD));
    }
}

/* Record locks: one that was taken must still be there, and die with no other descriptor than its own. */
static void op_lock(struct call *call)
{
    if (!take_slot(call, false) || !is_regular(call)) {
        call->name = NULL;
        return;
    }
    static const char *const names[] = {"F_SETLK (write)", "F_SETLK (unlock)", "F_OFD_GETLK"};
    int kind = (int)below(3);
    long start = below(64), length = 1 + below(8);
    call->name = names[kind];
    call->a = start;
    call->b = length;
    struct flock lock[SIDES];
    for (int s = 0; s < SIDES; s++)
        lock[s] = (struct flock){.l_type = kind == 1 ? F_UNLCK : F_WRLCK, .l_start = start, .l_len = length};
    BOTH(call, fcntl(call->fd[s], kind == 2 ? F_OFD_GETLK : F_SETLK, &lock[s]));
    same("lock type", lock[0].l_type, lock[1].l_type);
    same("lock start", lock[0].l_start, lock[1].l_start);
    same("lock length", lock[0].l_len, lock[1].l_len);
}

/* ---- Sizes */

static void op_cut(struct call *call)
{
    if (!take_slot(call, true)) {
        call->name = NULL;
        return;
    }
    int kind = (int)below(3);
    long length = one_in(40) ? -1 : one_in(60) ? LONG_MAX : one_in(3) ? below(IO_MAX / 4) : draw_offset(call->size);
    if (length > FILE_MAX && length != LONG_MAX)
        length = FILE_MAX;
    call->name = kind == 2 ? "ftruncate64" : "ftruncate";
    call->a = length;
    BOTH(call, kind == 2 ? ftruncate64(call->fd[s], length) : ftruncate(call->fd[s], length));
}

static void op_cut_name(struct call *call)
{
    int name = (int)below(NAMES);
    bool old = one_in(2);
    call->a = name;
    call->b = one_in(30) ? -1 : below(IO_MAX / 2);
    call->name = old ? "truncate64" : "truncate";
    BOTH(call, old ? truncate64(w.path[s][name], call->b) : truncate(w.path[s][name], call->b));
}

static void op_allocate(struct call *call)
{
    if (!take_slot(call, true)) {
        call->name = NULL;
        return;
    }
    static const int modes[] = {0, 0, FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE,
                                FALLOC_FL_ZERO_RANGE, FALLOC_FL_COLLAPSE_RANGE};
    int kind = (int)below(8);
    long offset = draw_offset(call->size), length = (long)draw_length() - (one_in(30) ? 100 : 0);
    bool posix = kind == 0 && one_in(2), old = one_in(2);
    call->name = posix ? "posix_fallocate" : "fallocate";
    call->a = offset;
    call->b = length;
    call->c = modes[kind];
    if (posix) {
        BOTH(call, posix_fallocate(call->fd[s], offset, length));
    } else {
        BOTH(call, old ? fallocate64(call->fd[s], modes[kind], offset, length)
                       : fallocate(call->fd[s], modes[kind], offset, length));
    }
}

static void op_sync(struct call *call)
{
    if (!take_slot(call, true)) {
        call->name = NULL;
        return;
    }
    static const char *const names[] = {"fsync", "fdatasync", "sync_file_range", "posix_fadvise"};
    int kind = (int)below(4);
    long offset = below(8192), length = below(8192);
    call->name = names[kind];
    for (int s = 0; s < SIDES; s++) {
        int fd = call->fd[s];
        errno = 0;
        switch (kind) {
        case 0: call->ret[s] = fsync(fd); break;
        case 1: call->ret[s] = fdatasync(fd); break;
        case 2: call->ret[s] = sync_file_range(fd, offset, length, SYNC_FILE_RANGE_WRITE); break;
        default: call->ret[s] = posix_fadvise(fd, offset, length, POSIX_FADV_DONTNEED);
        }
        call->err[s] = call->ret[s] == -1 ? errno : 0;
    }
    struct stat found;
    if (kind == 0 && call->ret[0] == 0 && RAW(SYS_fstat, call->fd[0], &found) == 0)
        check_mtime(call->slot, &found, "fsync");
}

/* Writes across the limit of a file's size: also bytes that are there already are refused. */
static void op_limit(struct call *call)
{
    if (!take_slot(call, false) || !is_regular(call)) {
        call->name = NULL;
        return;
    }
    struct rlimit before, limit;
    getrlimit(RLIMIT_FSIZE, &before);
    long offset = draw_offset(call->size);
    size_t length = draw_length();
    bool at_position = one_in(2);
    limit = before;
    limit.rlim_cur = (rlim_t)(below(call->size + PAGE) + 1);
    call->name = at_position ? "write (RLIMIT_FSIZE)" : "pwrite (RLIMIT_FSIZE)";
    call->a = (long)length;
    call->b = offset;
    call->c = (long)limit.rlim_cur;
    hold_timer(true);
    setrlimit(RLIMIT_FSIZE, &limit);
    BOTH(call, at_position ? write(call->fd[s], w.pool, length) : pwrite(call->fd[s], w.pool, length, offset));
    setrlimit(RLIMIT_FSIZE, &before);
    hold_timer(false);
}

/* ---- Names */

static void op_stat(struct call *call)
{
    struct stat found[SIDES];
    memset(found, 0, sizeof found);
    if (one_in(2) && take_slot(call, true)) {
        call->name = "fstat";
        BOTH(call, fstat(call->fd[s], &found[s]));
    } else {
        int name = (int)below(NAMES);
        call->name = "stat";
        call->a = name;
        bool link = one_in(2);
        BOTH(call, link ? lstat(w.path[s][name], &found[s]) : stat(w.path[s][name], &found[s]));
    }
    same("st_size", found[0].st_size, found[1].st_size);
    same("st_mode", found[0].st_mode, found[1].st_mode);
    same("st_nlink", (long)found[0].st_nlink, (long)found[1].st_nlink);
    if (w.options.holes)
        same("st_blocks", found[0].st_blocks, found[1].st_blocks);
}

static void op_name(struct call *call)
{
    int kind = (int)below(20), one = (int)below(NAMES), two = (int)below(NAMES);
    call->a = one;
    call->b = two;
    if (kind < 7) {
        call->name = "rename";
        BOTH(call, rename(w.path[s][one], w.path[s][two]));
    } else if (kind < 13) {
        call->name = "unlink";
        BOTH(call, unlink(w.path[s][one]));
    } else if (kind < 16) {
        call->name = "link";
        BOTH(call, link(w.path[s][one], w.path[s][two]));
    } else if (kind < 17) {
        call->name = "mkdir";
        BOTH(call, mkdir(w.path[s][one], 0755));
    } else if (kind < 18) {
        call->name = "renameat2 (exchange)";
        BOTH(call, renameat2(AT_FDCWD, w.path[s][one], AT_FDCWD, w.path[s][two], RENAME_EXCHANGE));
    } else {
        call->name = "rmdir";
        BOTH(call, rmdir(w.path[s][one]));
    }
}

/* ---- Mappings */

static sigjmp_buf escape;
static volatile sig_atomic_t guarded;

static void on_bus_error(int number)
{
    if (guarded)
        siglongjmp(escape, 1);
    signal(number, SIG_DFL);
    raise(number);
}

static void op_map(struct call *call)
{
    int place = (int)below(MAPS);
    struct map *map = &w.maps[place];
    if (map->length) {
        call->name = "munmap";
        BOTH(call, munmap(map->at[s], map->length));
        map->length = 0;
        return;
    }
    if (!take_slot(call, false) || !is_regular(call)) {
        call->name = NULL;
        return;
    }
    long offset = below(call->size / PAGE + 1) * PAGE;
    size_t length = (size_t)(1 + below(64)) * PAGE;
    bool writable = !one_in(4), old = one_in(2);
    int protection = PROT_READ | (writable ? PROT_WRITE : 0);
    call->name = old ? "mmap64" : "mmap";
    call->a = offset;
    call->b = (long)length;
    for (int s = 0; s < SIDES; s++) {
        errno = 0;
        void *at = old ? mmap64(NULL, length, protection, MAP_SHARED, call->fd[s], offset)
                       : mmap(NULL, length, protection, MAP_SHARED, call->fd[s], offset);
        map->at[s] = at;
        call->ret[s] = at == MAP_FAILED ? -1 : 0;
        call->err[s] = at == MAP_FAILED ? errno : 0;
    }
    map->writable = writable;
    map->length = call->ret[0] == 0 && call->ret[1] == 0 ? length : 0;
}

/* Reads or writes through a mapping; past the end of the file, and on a full file system, that is a SIGBUS. */
static void op_touch(struct call *call)
{
    struct map *map = &w.maps[below(MAPS)];
    if (!map->length) {
        call->name = NULL;
        return;
    }
    size_t at = (size_t)below((long)map->length), length = 1 + (size_t)below(3000);
    if (length > map->length - at)
        length = map->length - at;
    bool writing = map->writable && one_in(2);
    call->name = writing ? "store to a mapping" : "load from a mapping";
    call->a = (long)at;
    call->b = (long)length;
    signal(SIGBUS, on_bus_error);
    for (int s = 0; s < SIDES; s++) {
        volatile unsigned char *from = map->at[s] + at;
        volatile size_t done = 0;
        guarded = 1;
        if (sigsetjmp(escape, 1) == 0)
            for (; done < length; done++) {
                if (writing)
                    from[done] = w.pool[done];
                else
                    w.buffer[s][done] = from[done];
            }
        guarded = 0;
        call->ret[s] = (long)done;
    }
    if (!writing)
        same_bytes("data loaded", w.buffer[0], w.buffer[1], (size_t)(call->ret[0] & -(call->ret[0] == call->ret[1])));
}

/* ---- Leases: the program's own, as if there was no library with one. */

static void on_lease(int number) { (void)number; }

static void op_lease(struct call *call)
{
    /* Another process of this family may have the file mapped, which counts as open: it would get no lease. */
    if (w.depth > 0 || has_companion() || !take_slot(call, true) || (call->slot >= 0 && !is_regular(call))) {
        call->name = NULL;
        return;
    }
    static const int types[] = {F_RDLCK, F_WRLCK, F_UNLCK};
    int type = types[below(3)];
    bool reopen = one_in(2), use = one_in(2);
    long again[SIDES] = {0, 0}, left[SIDES] = {0, 0}, held[SIDES], used[SIDES] = {0, 0};
    signal(SIGIO, on_lease);
    call->name = "F_SETLEASE";
    call->a = type;
    for (int s = 0; s < SIDES; s++) {
        int fd = call->fd[s];
        errno = 0;
        call->ret[s] = fcntl(fd, F_SETLEASE, type);
        call->err[s] = call->ret[s] == -1 ? errno : 0;
        held[s] = fcntl(fd, F_GETLEASE);
        if (use)
            used[s] = pread(fd, w.buffer[s], 100, 0) + 1000 * pwrite(fd, w.pool, 100, 0);
        if (reopen) {
            char path[64];
            snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
            int other = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
            again[s] = other < 0 ? -errno : 0;
            if (other >= 0)
                close(other);
            left[s] = fcntl(fd, F_GETLEASE);
        }
        fcntl(fd, F_SETLEASE, F_UNLCK);
    }
    same("F_GETLEASE", held[0], held[1]);
    same("transfers under a lease", used[0], used[1]);
    same("open against a lease", again[0], again[1]);
    same("F_GETLEASE after it", left[0], left[1]);
}

struct entry file_entries[] = {
    {"open", 30, op_open, CHILD, 0, 0},
    {"reopen", 8, op_reopen, CHILD | DISTURBS, 0, 0},
    {"close", 24, op_close, CHILD, 0, 0},
    {"dup", 10, op_dup, CHILD | DISTURBS, 0, 0},
    {"dup over", 5, op_dup_over, CHILD | DISTURBS, 0, 0},
    {"pass", 2, op_pass, CHILD | DISTURBS, 0, 0},
    {"fcntl", 12, op_fcntl, CHILD, 0, 0},
    {"lock", 8, op_lock, CHILD | DISTURBS, 0, 0},
    {"ftruncate", 12, op_cut, CHILD, 0, 0},
    {"truncate", 4, op_cut_name, CHILD | DISTURBS, 0, 0},
    {"fallocate", 14, op_allocate, CHILD, 0, 0},
    {"sync", 10, op_sync, CHILD, 0, 0},
    {"RLIMIT_FSIZE", 3, op_limit, CHILD | DISTURBS, 0, 0},
    {"stat", 20, op_stat, CHILD, 0, 0},
    {"name", 22, op_name, CHILD | DISTURBS, 0, 0},
    {"map", 6, op_map, CHILD, 0, 0},
    {"touch", 20, op_touch, CHILD, 0, 0},
    {"lease", 4, op_lease, CHILD | DISTURBS, 0, 0},
    {NULL, 0, NULL, 0, 0, 0},
};
