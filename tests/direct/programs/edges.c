// usage: edges DIR
// Calls that must fail, and descriptors and names that became something else, after the library mapped the file. Each
// prints its result and errno, and a sum of the bytes that the buffer has then: the same with the library as without.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 64 };

static unsigned char buffer[PAGES * PAGE];
static char file[4096], moved[4096];

static void say(const char *what, long result)
{
    int error = result == -1 ? errno : 0;
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof buffer; i++)
        sum = sum * 31 + buffer[i];
    printf("%s: %ld %s, buffer %016llx\n", what, result, error ? strerrorname_np(error) : "-", (unsigned long long)sum);
    errno = 0;
}

/* Opens the file and uses it until the library has mapped it. */
static int opened(int flags)
{
    int fd = open(file, flags);
    if (fd < 0)
        exit(3);
    for (off_t at = 0; at < 32 * PAGE; at += PAGE)
        if ((flags & O_ACCMODE) == O_WRONLY ? pwrite(fd, buffer, PAGE, at) != PAGE : pread(fd, buffer, PAGE, at) != PAGE)
            exit(4);
    return fd;
}

static void bad_pointers(void)
{
    int fd = opened(O_RDWR);
    unsigned char *pages = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *bad[] = {NULL, (void *)8, (void *)-1, (void *)0x7fffffffffffUL, (void *)0x8000000000000000UL, pages + PAGE};
    mprotect(pages + PAGE, PAGE, PROT_NONE);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        say("pread to a bad pointer", pread(fd, bad[i], 10000, 5000));
        say("pwrite from a bad pointer", pwrite(fd, bad[i], 10000, 5000));
        struct iovec parts[] = {{buffer, 100}, {bad[i], 100}};
        say("preadv to one", preadv(fd, parts, 2, 0));
        say("pwritev from one", pwritev(fd, parts, 2, 0));
        say("read to one", read(fd, bad[i], 100));
        say("write from one", write(fd, bad[i], 100));
        say("preadv with a bad list", preadv(fd, bad[i], 2, 0));
    }
    say("pread up to a bad page", pread(fd, pages + PAGE - 100, 5000, 0));
    mprotect(pages, PAGE, PROT_READ);
    say("pread to a read-only page", pread(fd, pages, 100, 0));
    say("pread of too much", pread(fd, buffer, (size_t)-1, 0));
    say("pread at a negative offset", pread(fd, buffer, 100, -5));
    say("pread at the largest offset", pread(fd, buffer, 100, INT64_MAX));
    say("pwrite at the largest offset", pwrite(fd, buffer, 100, INT64_MAX));
    say("pread over the end", pread(fd, buffer, sizeof buffer, 2 * PAGE));
    say("pread of nothing", pread(fd, buffer, 0, 0));
    close(fd);
}

static void closed_descriptors(void)
{
    int fd = opened(O_RDWR), ends[2];
    close(fd);
    say("pread of a closed descriptor", pread(fd, buffer, PAGE, 0));
    say("pwrite to it", pwrite(fd, buffer, PAGE, 0));
    say("pread of -1", pread(-1, buffer, PAGE, 0));
    say("pread of a high number", pread(1 << 30, buffer, PAGE, 0));
    if (pipe(ends))
        exit(5);
    say("pread of a pipe by its number", pread(fd, buffer, PAGE, 0));
    close(ends[0]);
    close(ends[1]);
    fd = opened(O_RDONLY);
    say("pwrite to what is open for reading", pwrite(fd, buffer, PAGE, 0));
    close(fd);
    fd = opened(O_WRONLY);
    say("pread of what is open for writing", pread(fd, buffer, PAGE, 0));
    close(fd);
    fd = opened(O_RDWR);
    close_range((unsigned)fd, (unsigned)fd, 0);
    say("pread after close_range", pread(fd, buffer, PAGE, 0));
}

static void other_things_of_the_name(void)
{
    int fd = opened(O_RDWR);
    struct stat found;
    say("rename", rename(file, moved));
    say("mkdir", mkdir(file, 0755));
    say("pread of the file that has another name", pread(fd, buffer, PAGE, PAGE));
    memset(buffer, 5, PAGE);
    say("pwrite to it", pwrite(fd, buffer, PAGE, PAGE));
    int directory = open(file, O_RDONLY);
    say("pread of the directory", pread(directory, buffer, PAGE, 0));
    say("dup2 of the directory over the file", dup2(directory, fd) == fd ? 0 : -1);
    say("pread of it", pread(fd, buffer, PAGE, 0));
    say("pwrite to it", pwrite(fd, buffer, PAGE, 0));
    close(directory);
    close(fd);
    say("open of the directory for writing", open(file, O_RDWR));
    say("rmdir", rmdir(file));
    fd = open(moved, O_RDWR);
    say("pread by the other name", pread(fd, buffer, PAGE, PAGE));
    say("unlink", unlink(moved));
    say("pread of what has no name", pread(fd, buffer, PAGE, 2 * PAGE));
    say("its links", fstat(fd, &found) ? -1 : (long)found.st_nlink);
    say("cut", ftruncate(fd, PAGE + 10));
    say("pread over the new end", pread(fd, buffer, 2 * PAGE, 0));
    say("pread behind it", pread(fd, buffer, PAGE, 3 * PAGE));
    say("pwrite behind it", pwrite(fd, buffer, 10, 4 * PAGE));
    say("size", fstat(fd, &found) ? -1 : (long)found.st_size);
    close(fd);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    snprintf(file, sizeof file, "%s/file", argv[1]);
    snprintf(moved, sizeof moved, "%s/moved", argv[1]);
    int fd = open(file, O_RDWR | O_CREAT | O_TRUNC, 0644);
    for (size_t i = 0; i < sizeof buffer; i++)
        buffer[i] = (unsigned char)(i * 2654435761u >> 20);
    if (fd < 0 || pwrite(fd, buffer, sizeof buffer, 0) != sizeof buffer)
        return 3;
    close(fd);
    bad_pointers();
    closed_descriptors();
    other_things_of_the_name();
    return 0;
}
