/* What every step needs: random numbers, descriptors, and the comparisons. */
#include "fuzz.h"

#include <dirent.h>
#include <stdarg.h>

struct world w;

uint64_t draw(void)
{
    uint64_t z = w.random += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

size_t draw_length(void)
{
    long kind = below(1000);
    if (kind < 15)
        return 0;
    if (kind < 640)
        return (size_t)below(512);
    if (kind < 915)
        return (size_t)below(2 * PAGE + 100);
    if (kind < 955)
        return (size_t)(PAGE * (1 + below(8)));
    if (kind < 998)
        return (size_t)below(65536);
    return (size_t)below(IO_MAX);
}

long draw_offset(long size)
{
    long kind = below(400), back = size - below(5000), around = size + below(3000) - 1500;
    if (kind < 160)
        return below(size + 1);
    if (kind < 240)
        return below(size / PAGE + 1) * PAGE;
    if (kind < 320)
        return back < 0 ? 0 : back;
    if (kind < 364)
        return around < 0 ? 0 : around;
    if (kind < 380)
        return size + below(65536);
    if (kind < 396)
        return 0;
    if (kind < 398)
        return -1 - below(5000);
    return one_in(4) ? LONG_MAX - below(10) : below(FILE_MAX);
}

struct timespec coarse_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return now;
}

/* ---- Differences */

void differ(const char *format, ...)
{
    va_list list;
    if (w.failed)
        return;
    w.failed = true;
    va_start(list, format);
    vsnprintf(w.difference, sizeof w.difference, format, list);
    va_end(list);
}

void same(const char *what, long served, long plain)
{
    if (served != plain)
        differ("%s: %ld, should be %ld", what, served, plain);
}

void same_bytes(const char *what, const void *served, const void *plain, size_t length)
{
    const unsigned char *one = served, *two = plain;
    if (memcmp(one, two, length) == 0)
        return;
    size_t at = 0, count = 0;
    while (one[at] == two[at])
        at++;
    for (size_t i = at; i < length; i++)
        count += one[i] != two[i];
    differ("%s: byte %zu of %zu is %02x, should be %02x; %zu bytes differ", what, at, length, one[at], two[at], count);
}

static void print_call(const struct call *call, long step)
{
    fprintf(stderr, "  %8ld  %-28s slot %3d  size %-8ld a=%-10ld b=%-10ld c=%-8ld", step, call->name, call->slot,
            call->size, call->a, call->b, call->c);
    for (int s = 0; s < SIDES; s++) {
        fprintf(stderr, s ? "   plain %ld" : " -> served %ld", call->ret[s]);
        if (call->err[s])
            fprintf(stderr, " (%s)", strerrorname_np(call->err[s]) ? strerrorname_np(call->err[s]) : "?");
    }
    fputc('\n', stderr);
}

void report(void)
{
    fprintf(stderr, "%sDIFFERENCE: %s\n", w.depth ? "[child] " : "", w.difference);
    fprintf(stderr, "seed %llu, step %ld, pid %d; the last steps:\n", (unsigned long long)w.options.seed, w.step,
            (int)getpid());
    long known = w.ring_at < RING ? (long)w.ring_at : RING;
    for (long i = known; i > 0; i--)
        print_call(&w.ring[(w.ring_at - (uint64_t)i) % RING], w.step - i + 1);
    fflush(stderr);
}

void trace(const struct call *call)
{
    print_call(call, w.step);
}

/* ---- Descriptors */

bool take_slot(struct call *call, bool with_bad)
{
    call->size = 0;
    call->mode = 0;
    if (with_bad && one_in(150)) {
        call->slot = -1;
        call->fd[0] = call->fd[1] = one_in(2) ? -1 : 999999;
        return true;
    }
    long start = below(SLOTS);
    for (int i = 0; i < SLOTS; i++) {
        int slot = (int)((start + i) % SLOTS);
        if (!w.slots[slot].used)
            continue;
        call->slot = slot;
        for (int s = 0; s < SIDES; s++)
            call->fd[s] = w.slots[slot].fd[s];
        call->size = w.slots[slot].size;
        call->mode = w.slots[slot].mode;
        return true;
    }
    return false;
}

bool is_regular(const struct call *call)
{
    return S_ISREG(call->mode);
}

int free_slot(void)
{
    long start = below(SLOTS);
    int used = 0;
    for (int i = 0; i < SLOTS; i++)
        used += w.slots[i].used;
    if (used >= w.slots_max)
        return -1;
    for (int i = 0; i < SLOTS; i++)
        if (!w.slots[(start + i) % SLOTS].used)
            return (int)((start + i) % SLOTS);
    return -1;
}

void keep(struct call *call, int slot)
{
    if (call->ret[0] >= 0 && call->ret[1] >= 0) {
        w.slots[slot] = (struct slot){true, {(int)call->ret[0], (int)call->ret[1]}, 0, 0, {0, 0}};
        look_at(slot);
        call->ret[0] = call->ret[1] = 0;
        call->slot = slot;
    } else {
        /* If only one was opened, the results say so. */
        call->slot = -1;
        for (int s = 0; s < SIDES; s++)
            if (call->ret[s] >= 0)
                call->ret[s] = 0;
    }
}

void look_at(int slot)
{
    struct stat found;
    if (RAW(SYS_fstat, w.slots[slot].fd[1], &found) == 0) {
        w.slots[slot].size = found.st_size;
        w.slots[slot].mode = found.st_mode;
    }
}

void forget(int slot)
{
    memset(&w.slots[slot], 0, sizeof w.slots[slot]);
}

/* ---- Times */

static bool is_before(struct timespec one, struct timespec two)
{
    return one.tv_sec < two.tv_sec || (one.tv_sec == two.tv_sec && one.tv_nsec < two.tv_nsec);
}

void check_mtime(int slot, const struct stat *found, const char *after)
{
    if (slot < 0 || !w.slots[slot].written.tv_sec)
        return;
    if (is_before(found->st_mtim, w.slots[slot].written))
        differ("mtime after %s is %ld.%09ld, before the last write at %ld.%09ld", after, (long)found->st_mtim.tv_sec,
               found->st_mtim.tv_nsec, (long)w.slots[slot].written.tv_sec, w.slots[slot].written.tv_nsec);
    w.slots[slot].written = (struct timespec){0, 0};
}

void wrote(struct call *call, struct timespec before)
{
    struct stat found;
    if (call->slot < 0 || !is_regular(call))
        return;
    w.slots[call->slot].written = before;
    if (w.options.strict && RAW(SYS_fstat, call->fd[0], &found) == 0)
        check_mtime(call->slot, &found, "a write (strict)");
}

/* ---- Whole files */

/* Compares all bytes of one file through these descriptors. */
static void check_bytes(const char *what, const int fd[SIDES], long size)
{
    char text[64];
    for (long at = 0; at < size && !w.failed; at += IO_MAX) {
        long got[SIDES];
        for (int s = 0; s < SIDES; s++)
            got[s] = RAW(SYS_pread64, fd[s], w.buffer[s], IO_MAX, at);
        same("length of the contents", got[0], got[1]);
        snprintf(text, sizeof text, "contents of %s from %ld", what, at);
        if (got[0] > 0)
            same_bytes(text, w.buffer[0], w.buffer[1], (size_t)got[0]);
        else
            break;
    }
}

static bool check_status(const char *what, const struct stat found[SIDES])
{
    char text[64];
    snprintf(text, sizeof text, "size of %s", what);
    same(text, found[0].st_size, found[1].st_size);
    snprintf(text, sizeof text, "mode of %s", what);
    same(text, found[0].st_mode, found[1].st_mode);
    snprintf(text, sizeof text, "links of %s", what);
    same(text, (long)found[0].st_nlink, (long)found[1].st_nlink);
    snprintf(text, sizeof text, "blocks of %s", what);
    if (w.options.holes && S_ISREG(found[0].st_mode))
        same(text, found[0].st_blocks, found[1].st_blocks);
    return !w.failed;
}

static bool seen_before(ino_t *seen, int *count, ino_t one)
{
    for (int i = 0; i < *count; i++)
        if (seen[i] == one)
            return true;
    seen[(*count)++] = one;
    return false;
}

/* What is open is read through its own descriptors: opening it once more would break a lease of the library. */
void check_all(void)
{
    ino_t seen[SLOTS + NAMES];
    int count = 0;
    char what[32];
    for (int i = 0; i < SLOTS && !w.failed; i++) {
        struct stat found[SIDES];
        if (!w.slots[i].used)
            continue;
        long flags = RAW(SYS_fcntl, w.slots[i].fd[0], F_GETFL);
        for (int s = 0; s < SIDES; s++)
            if (RAW(SYS_fstat, w.slots[i].fd[s], &found[s]) != 0)
                differ("side %d: descriptor of slot %d is gone", s, i);
        if (w.failed || !S_ISREG(found[0].st_mode) || flags & (O_WRONLY | O_PATH))
            continue;
        if (seen_before(seen, &count, found[0].st_ino))
            continue;
        snprintf(what, sizeof what, "slot %d", i);
        if (check_status(what, found))
            check_bytes(what, w.slots[i].fd, found[0].st_size);
    }
    for (int name = 0; name < NAMES && !w.failed; name++) {
        struct stat found[SIDES];
        long done[SIDES];
        int fd[SIDES];
        for (int s = 0; s < SIDES; s++)
            done[s] = RAW(SYS_newfstatat, AT_FDCWD, w.path[s][name], &found[s], AT_SYMLINK_NOFOLLOW);
        snprintf(what, sizeof what, "name %d", name);
        same(what, done[0], done[1]);
        if (done[0] != 0 || !check_status(what, found) || !S_ISREG(found[0].st_mode)
            || seen_before(seen, &count, found[0].st_ino))
            continue;
        for (int s = 0; s < SIDES; s++)
            fd[s] = (int)RAW(SYS_openat, AT_FDCWD, w.path[s][name], O_RDONLY | O_CLOEXEC);
        check_bytes(what, fd, found[0].st_size);
        for (int s = 0; s < SIDES; s++)
            RAW(SYS_close, fd[s]);
    }
}

/* ---- Setting up */

static void *room(size_t size)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) {
        perror("fuzz: memory for buffers");
        exit(2);
    }
    return at;
}

/* Empties a directory of what an earlier run left, one level deep. */
static void empty(const char *directory)
{
    DIR *list = opendir(directory);
    struct dirent *entry;
    char path[PATH_ROOM + 256];
    while (list && (entry = readdir(list))) {
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 && unlink(path) != 0)
            rmdir(path);
    }
    if (list)
        closedir(list);
}

void prepare(bool reset)
{
    char path[PATH_ROOM];
    w.slots_max = SLOTS;
    w.pool = room(POOL);
    for (size_t i = 0; i < POOL / sizeof(uint64_t); i++)
        ((uint64_t *)w.pool)[i] = draw();
    w.read_only = room(PAGE);
    mprotect(w.read_only, PAGE, PROT_READ);
    for (int s = 0; s < SIDES; s++) {
        w.buffer[s] = room(BUFFER);
        w.straddle[s] = room(2 * PAGE);
        mprotect(w.straddle[s] + PAGE, PAGE, PROT_NONE);
        for (int name = 0; name < NAMES; name++)
            snprintf(w.path[s][name], PATH_ROOM, "%s/f%d", w.options.directory[s], name);
        if (reset) {
            empty(w.options.directory[s]);
            snprintf(path, sizeof path, "%s/sub", w.options.directory[s]);
            int made = mkdir(path, 0755);
            for (int i = 0; i < 2 && made == 0; i++) {
                char target[8];
                snprintf(target, sizeof target, "f%d", i);
                snprintf(path, sizeof path, "%s/link%d", w.options.directory[s], i);
                made = symlink(target, path);
            }
            if (made != 0) {
                fprintf(stderr, "fuzz: %s: %s\n", path, strerror(errno));
                exit(2);
            }
        }
        w.directory[s] = open(w.options.directory[s], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (w.directory[s] < 0) {
            fprintf(stderr, "fuzz: %s: %s\n", w.options.directory[s], strerror(errno));
            exit(2);
        }
    }
}
