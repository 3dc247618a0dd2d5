/* Reads, writes and positions, by every name that libc has for them. */
#include "fuzz.h"

#include <sys/sendfile.h>

ssize_t __read_chk(int, void *, size_t, size_t);
ssize_t __pread_chk(int, void *, size_t, off_t, size_t);
ssize_t __pread64_chk(int, void *, size_t, off64_t, size_t);

enum { PIECES = 8 };

/* Where the bytes are: a good place, nowhere, or a place that ends too soon. */
enum place { GOOD, NOWHERE, STRADDLE, READ_ONLY };

static enum place draw_place(bool reading)
{
    switch (below(400)) {
    case 0: return NOWHERE;
    case 1: return STRADDLE;
    case 2: return reading ? READ_ONLY : NOWHERE;
    default: return GOOD;
    }
}

/* Splits `length` bytes from `base` in up to eight pieces, some of them empty. */
static int split(struct iovec *pieces, unsigned char *base, size_t length, uint64_t shape)
{
    int count = 1 + (int)(shape % PIECES);
    size_t at = 0;
    for (int i = 0; i < count; i++) {
        shape = shape * 6364136223846793005u + 1442695040888963407u;
        size_t left = length - at;
        size_t take = i == count - 1 ? left : (shape >> 33) % 4 == 0 ? 0 : (shape >> 35) % (left + 1);
        pieces[i] = (struct iovec){base + at, take};
        at += take;
    }
    return count;
}

static int draw_read_flags(void)
{
    static const int flags[] = {0, 0, 0, RWF_HIPRI, RWF_NOWAIT, 1 << 30, RWF_APPEND, RWF_DSYNC};
    return flags[below(8)];
}

static int draw_write_flags(void)
{
    static const int flags[] = {0, 0, 0, RWF_DSYNC, RWF_SYNC, RWF_APPEND, RWF_HIPRI, 1 << 30, RWF_NOWAIT};
    return flags[below(9)];
}

struct transfer {
    int kind;
    enum place place;
    size_t length;
    long offset;
    size_t shift; /* of the buffer, from alignment */
    uint64_t shape;
    int flags;
};

static struct transfer draw_transfer(struct call *call, int kinds, bool reading)
{
    struct transfer t = {.kind = (int)below(kinds), .place = draw_place(reading), .length = draw_length()};
    t.offset = draw_offset(call->size);
    t.shift = (size_t)below(64);
    t.shape = draw();
    if (one_in(300))
        t.length = one_in(2) ? (size_t)-1 : (size_t)LONG_MAX;
    t.flags = reading ? draw_read_flags() : draw_write_flags();
    call->a = (long)t.length;
    call->b = t.offset;
    call->c = t.place;
    return t;
}

static unsigned char *target(const struct transfer *t, int side)
{
    switch (t->place) {
    case NOWHERE: return (unsigned char *)8;
    case STRADDLE: return w.straddle[side] + PAGE - 1 - (t->shape % 300);
    case READ_ONLY: return w.read_only;
    default: return w.buffer[side] + t->shift;
    }
}

static long read_by(const struct transfer *t, int fd, unsigned char *at)
{
    struct iovec pieces[PIECES];
    int count = t->kind >= 6 ? split(pieces, at, t->length & LONG_MAX, t->shape) : 0;
    switch (t->kind) {
    case 0: return read(fd, at, t->length);
    case 1: return __read_chk(fd, at, t->length, (size_t)-1);
    case 2: return pread(fd, at, t->length, t->offset);
    case 3: return pread64(fd, at, t->length, t->offset);
    case 4: return __pread_chk(fd, at, t->length, t->offset, (size_t)-1);
    case 5: return __pread64_chk(fd, at, t->length, t->offset, (size_t)-1);
    case 6: return readv(fd, pieces, count);
    case 7: return preadv(fd, pieces, count, t->offset);
    case 8: return preadv64(fd, pieces, count, t->offset);
    case 9: return preadv2(fd, pieces, count, t->offset, t->flags);
    default: return preadv64v2(fd, pieces, count, t->shape % 3 ? t->offset : -1, t->flags);
    }
}

static const char *const READS[] = {"read",  "__read_chk", "pread",    "pread64", "__pread_chk", "__pread64_chk",
                                    "readv", "preadv",     "preadv64", "preadv2", "preadv64v2"};

static void op_read(struct call *call)
{
    if (!take_slot(call, true)) {
        call->name = NULL;
        return;
    }
    struct transfer t = draw_transfer(call, 11, true);
    call->name = READS[t.kind];
    size_t touched = 0;
    if (t.place == GOOD)
        touched = t.length < (size_t)(FILE_MAX + PAGE) ? t.length : (size_t)call->size + PAGE;
    for (int s = 0; s < SIDES; s++)
        memset(target(&t, s), 0xA5, touched);
    if (t.place == STRADDLE)
        for (int s = 0; s < SIDES; s++)
            memset(w.straddle[s], 0xA5, PAGE);
    BOTH(call, read_by(&t, call->fd[s], target(&t, s)));
    same_bytes("data read", target(&t, 0), target(&t, 1), touched);
    if (t.place == STRADDLE && call->ret[0] > 0)
        same_bytes("data read up to the bad page", target(&t, 0), target(&t, 1), (size_t)call->ret[0]);
}

static long write_by(const struct transfer *t, int fd, unsigned char *at)
{
    struct iovec pieces[PIECES];
    int count = t->kind >= 3 ? split(pieces, at, t->length & LONG_MAX, t->shape) : 0;
    switch (t->kind) {
    case 0: return write(fd, at, t->length);
    case 1: return pwrite(fd, at, t->length, t->offset);
    case 2: return pwrite64(fd, at, t->length, t->offset);
    case 3: return writev(fd, pieces, count);
    case 4: return pwritev(fd, pieces, count, t->offset);
    case 5: return pwritev64(fd, pieces, count, t->offset);
    case 6: return pwritev2(fd, pieces, count, t->offset, t->flags);
    default: return pwritev64v2(fd, pieces, count, t->shape % 3 ? t->offset : -1, t->flags);
    }
}

static const char *const WRITES[] = {"write",   "pwrite",    "pwrite64", "writev",
                                     "pwritev", "pwritev64", "pwritev2", "pwritev64v2"};

static unsigned char *source(const struct transfer *t)
{
    switch (t->place) {
    case NOWHERE: return (unsigned char *)8;
    case STRADDLE: return w.straddle[0] + PAGE - 1 - (t->shape % 300);
    default: return w.pool + t->shape % IO_MAX;
    }
}

static void op_write(struct call *call)
{
    if (!take_slot(call, true)) {
        call->name = NULL;
        return;
    }
    struct transfer t = draw_transfer(call, 8, false);
    call->name = WRITES[t.kind];
    if (t.place == STRADDLE)
        memcpy(w.straddle[0], w.pool + t.shift, PAGE);
    /* A length that is too long for the address space is refused; one of the pieces would not be. */
    if (t.length > BUFFER && t.kind >= 3)
        t.length = 17;
    struct timespec before = coarse_now();
    BOTH(call, write_by(&t, call->fd[s], source(&t)));
    if (call->ret[0] > 0)
        wrote(call, before);
}

/* Pieces that the kernel refuses: too many, none, a negative number, a bad list, one bad piece. */
static void op_bad_pieces(struct call *call)
{
    static struct iovec many[1100];
    if (!take_slot(call, true)) {
        call->name = NULL;
        return;
    }
    bool writing = one_in(2);
    call->name = writing ? "pwritev (bad)" : "preadv (bad)";
    static const int counts[] = {0, -1, 1025, 1100, 3, 3, 1024};
    int kind = (int)below(7);
    call->a = counts[kind];
    call->b = draw_offset(call->size);
    long length = below(64);
    long bad = below(3);
    struct timespec before = coarse_now();
    for (int s = 0; s < SIDES; s++) {
        unsigned char *base = writing ? w.pool : w.buffer[s];
        for (int i = 0; i < 1100; i++)
            many[i] = (struct iovec){base + i * 64, (size_t)length};
        if (kind == 4)
            many[bad].iov_base = (void *)8;
        const struct iovec *list = kind == 5 ? (const struct iovec *)8 : many;
        errno = 0;
        call->ret[s] = writing ? pwritev(call->fd[s], list, counts[kind], call->b)
                               : preadv(call->fd[s], list, counts[kind], call->b);
        call->err[s] = call->ret[s] == -1 ? errno : 0;
    }
    if (writing && call->ret[0] > 0)
        wrote(call, before);
}

static void op_seek(struct call *call)
{
    if (!take_slot(call, true)) {
        call->name = NULL;
        return;
    }
    static const int whences[] = {SEEK_SET, SEEK_SET, SEEK_SET, SEEK_CUR, SEEK_END, SEEK_END, SEEK_DATA, SEEK_HOLE, 77};
    int whence = whences[below(9)];
    if (!w.options.holes && (whence == SEEK_DATA || whence == SEEK_HOLE))
        whence = SEEK_SET;
    if (call->slot >= 0 && !is_regular(call) && whence != SEEK_SET)
        whence = SEEK_SET;
    call->name = "lseek";
    call->a = whence == SEEK_CUR || whence == SEEK_END ? below(8192) - 4096 : draw_offset(call->size);
    call->b = whence;
    if (call->slot >= 0 && !is_regular(call))
        call->a = 0;
    bool old = one_in(2);
    BOTH(call, old ? lseek64(call->fd[s], call->a, whence) : lseek(call->fd[s], call->a, whence));
}

/* ---- Between descriptors: these stay with the kernel. */

/* Within one file the kernel takes pages that it then overwrites, but not where a hole is: what comes of it depends on
 * which pages have storage. */
static bool is_same_file(const struct call *one, const struct call *other)
{
    struct stat found[2];
    return fstat(one->fd[1], &found[0]) == 0 && fstat(other->fd[1], &found[1]) == 0 &&
           found[0].st_ino == found[1].st_ino;
}

static void op_sendfile(struct call *call)
{
    struct call from = *call;
    if (!take_slot(&from, false) || !take_slot(call, false) || !is_regular(&from) || !is_regular(call) ||
        is_same_file(&from, call)) {
        call->name = NULL;
        return;
    }
    bool with_offset = one_in(2);
    long start = draw_offset(from.size), length = (long)draw_length();
    call->a = from.slot;
    call->b = with_offset ? start : -1;
    call->c = length;
    struct timespec before = coarse_now();
    hold_timer(true);
    for (int s = 0; s < SIDES; s++) {
        off_t offset = start;
        errno = 0;
        call->ret[s] = sendfile(call->fd[s], from.fd[s], with_offset ? &offset : NULL, (size_t)length);
        call->err[s] = call->ret[s] == -1 ? errno : 0;
        from.ret[s] = offset;
    }
    hold_timer(false);
    same("sendfile's offset", from.ret[0], from.ret[1]);
    same("offset of sendfile's source", lseek(from.fd[0], 0, SEEK_CUR), lseek(from.fd[1], 0, SEEK_CUR));
    if (call->ret[0] > 0)
        wrote(call, before);
}

static void op_copy_range(struct call *call)
{
    struct call from = *call;
    if (!take_slot(&from, false) || !take_slot(call, false) || !is_regular(&from) || !is_regular(call)) {
        call->name = NULL;
        return;
    }
    int which = (int)below(4);
    long in = draw_offset(from.size), out = draw_offset(call->size), length = (long)draw_length();
    call->a = in;
    call->b = out;
    call->c = length;
    struct timespec before = coarse_now();
    hold_timer(true);
    for (int s = 0; s < SIDES; s++) {
        off64_t i = in, o = out;
        errno = 0;
        call->ret[s] = copy_file_range(from.fd[s], which & 1 ? &i : NULL, call->fd[s], which & 2 ? &o : NULL,
                                       (size_t)length, 0);
        call->err[s] = call->ret[s] == -1 ? errno : 0;
        from.ret[s] = i + o;
    }
    hold_timer(false);
    same("copy_file_range's offsets", from.ret[0], from.ret[1]);
    same("offset of its source", lseek(from.fd[0], 0, SEEK_CUR), lseek(from.fd[1], 0, SEEK_CUR));
    if (call->ret[0] > 0)
        wrote(call, before);
}

static void op_splice(struct call *call)
{
    if (!take_slot(call, false) || !is_regular(call)) {
        call->name = NULL;
        return;
    }
    bool out = one_in(2), with_offset = one_in(2);
    long start = draw_offset(call->size), length = 1 + below(4096);
    call->name = out ? "splice to a pipe" : "splice from a pipe";
    call->a = with_offset ? start : -1;
    call->b = length;
    long got[SIDES];
    struct timespec before = coarse_now();
    for (int s = 0; s < SIDES; s++) {
        int ends[2];
        off64_t offset = start;
        if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
            abort();
        errno = 0;
        if (out) {
            call->ret[s] = splice(call->fd[s], with_offset ? &offset : NULL, ends[1], NULL, (size_t)length, 0);
        } else {
            if (write(ends[1], w.pool + 77, (size_t)length) != length)
                abort();
            errno = 0;
            call->ret[s] = splice(ends[0], NULL, call->fd[s], with_offset ? &offset : NULL, (size_t)length, 0);
        }
        call->err[s] = call->ret[s] == -1 ? errno : 0;
        memset(w.buffer[s], 0, 4096);
        got[s] = out ? read(ends[0], w.buffer[s], 4096) : offset;
        close(ends[0]);
        close(ends[1]);
    }
    same("bytes or offset of the splice", got[0], got[1]);
    if (out)
        same_bytes("data spliced", w.buffer[0], w.buffer[1], 4096);
    else if (call->ret[0] > 0)
        wrote(call, before);
}

/* ---- The unshimmed writer: the same descriptors by system calls that no library sees. */

static void op_raw(struct call *call)
{
    if (!take_slot(call, false) || !is_regular(call)) {
        call->name = NULL;
        return;
    }
    long offset = draw_offset(call->size);
    size_t length = draw_length();
    unsigned char *from = w.pool + below(IO_MAX);
    call->a = (long)length;
    call->b = offset;
    long cut = below(call->size + 8192);
    switch (below(w.options.raw_position ? 8 : 5)) {
    case 0:
        call->name = "raw pread64";
        BOTH_RAW(call, RAW(SYS_pread64, call->fd[s], w.buffer[s], length, offset));
        if (call->ret[0] > 0)
            same_bytes("data read raw", w.buffer[0], w.buffer[1], (size_t)call->ret[0]);
        break;
    case 1:
    case 2:
        call->name = "raw pwrite64";
        BOTH_RAW(call, RAW(SYS_pwrite64, call->fd[s], from, length, offset));
        break;
    case 3:
        call->name = "raw ftruncate";
        call->a = cut;
        BOTH_RAW(call, RAW(SYS_ftruncate, call->fd[s], cut));
        break;
    case 4:
        call->name = "raw fallocate (punch)";
        BOTH_RAW(call, RAW(SYS_fallocate, call->fd[s], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, length));
        break;
    case 5:
        call->name = "raw read";
        BOTH_RAW(call, RAW(SYS_read, call->fd[s], w.buffer[s], length));
        break;
    case 6:
        call->name = "raw write";
        BOTH_RAW(call, RAW(SYS_write, call->fd[s], from, length));
        break;
    default:
        call->name = "raw lseek";
        BOTH_RAW(call, RAW(SYS_lseek, call->fd[s], offset, SEEK_SET));
    }
}

/* Another program: opens by name, changes the file and closes it again. */
static void op_raw_open(struct call *call)
{
    long name = below(NAMES), offset = below(IO_MAX / 4), length = 1 + below(9000);
    bool cut = one_in(3);
    unsigned char *from = w.pool + below(IO_MAX);
    call->name = cut ? "raw open, ftruncate" : "raw open, pwrite64";
    call->a = name;
    call->b = offset;
    call->c = length;
    for (int s = 0; s < SIDES; s++) {
        long fd = RAW(SYS_openat, AT_FDCWD, w.path[s][name], O_RDWR | O_CLOEXEC);
        long result = fd;
        if (fd >= 0) {
            result = cut ? RAW(SYS_ftruncate, fd, offset) : RAW(SYS_pwrite64, fd, from, length, offset);
            RAW(SYS_close, fd);
        }
        call->ret[s] = result < 0 ? -1 : result;
        call->err[s] = result < 0 ? (int)-result : 0;
    }
}

struct entry io_entries[] = {
    {"read", 260, op_read, CHILD, 0, 0},
    {"write", 200, op_write, CHILD, 0, 0},
    {"bad pieces", 3, op_bad_pieces, CHILD, 0, 0},
    {"lseek", 80, op_seek, CHILD, 0, 0},
    {"sendfile", 5, op_sendfile, CHILD | DISTURBS, 0, 0},
    {"copy_file_range", 5, op_copy_range, CHILD | DISTURBS, 0, 0},
    {"splice", 4, op_splice, CHILD | DISTURBS, 0, 0},
    {"raw", 25, op_raw, CHILD | DISTURBS, 0, 0},
    {"raw open", 6, op_raw_open, CHILD | DISTURBS, 0, 0},
    {NULL, 0, NULL, 0, 0, 0},
};
