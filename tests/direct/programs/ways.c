// usage: ways FILE
// Writes records by the library's calls and reads them by ways that it does not serve, and the other way round:
// read and write, stdio, sendfile, copy_file_range, splice, io_uring, mmap and raw system calls. The file has all
// records of version 0. Each way prints a line.
#define _GNU_SOURCE
#include "records.h"
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/uio.h>

static int fd, other;
static const char *path;

/* ---- io_uring without a library: one request at a time. */

static struct {
    int fd;
    unsigned *submit_tail, *submit_mask, *submit_array, *complete_head, *complete_tail, *complete_mask;
    struct io_uring_sqe *entries;
    struct io_uring_cqe *completions;
} ring;

static int open_ring(void)
{
    struct io_uring_params given;
    memset(&given, 0, sizeof given);
    ring.fd = (int)syscall(SYS_io_uring_setup, 4, &given);
    if (ring.fd < 0)
        return 0;
    size_t submit_bytes = given.sq_off.array + given.sq_entries * sizeof(unsigned);
    size_t complete_bytes = given.cq_off.cqes + given.cq_entries * sizeof(struct io_uring_cqe);
    size_t entry_bytes = given.sq_entries * sizeof(struct io_uring_sqe);
    int protection = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_POPULATE;
    char *submit = mmap(NULL, submit_bytes, protection, flags, ring.fd, IORING_OFF_SQ_RING);
    char *complete = mmap(NULL, complete_bytes, protection, flags, ring.fd, IORING_OFF_CQ_RING);
    ring.entries = mmap(NULL, entry_bytes, protection, flags, ring.fd, IORING_OFF_SQES);
    if (submit == MAP_FAILED || complete == MAP_FAILED || ring.entries == MAP_FAILED)
        fail("mapping the ring");
    ring.submit_tail = (unsigned *)(submit + given.sq_off.tail);
    ring.submit_mask = (unsigned *)(submit + given.sq_off.ring_mask);
    ring.submit_array = (unsigned *)(submit + given.sq_off.array);
    ring.complete_head = (unsigned *)(complete + given.cq_off.head);
    ring.complete_tail = (unsigned *)(complete + given.cq_off.tail);
    ring.complete_mask = (unsigned *)(complete + given.cq_off.ring_mask);
    ring.completions = (struct io_uring_cqe *)(complete + given.cq_off.cqes);
    return 1;
}

static long by_ring(int operation, void *buffer, size_t bytes, off_t offset)
{
    unsigned tail = *ring.submit_tail, slot = tail & *ring.submit_mask;
    struct io_uring_sqe *entry = &ring.entries[slot];
    memset(entry, 0, sizeof *entry);
    entry->opcode = (unsigned char)operation;
    entry->fd = fd;
    entry->addr = (uint64_t)(uintptr_t)buffer;
    entry->len = (unsigned)bytes;
    entry->off = (uint64_t)offset;
    ring.submit_array[slot] = slot;
    __atomic_store_n(ring.submit_tail, tail + 1, __ATOMIC_RELEASE);
    if (syscall(SYS_io_uring_enter, ring.fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) != 1)
        fail("io_uring_enter");
    unsigned head = *ring.complete_head;
    if (head == __atomic_load_n(ring.complete_tail, __ATOMIC_ACQUIRE))
        fail("no completion");
    long result = ring.completions[head & *ring.complete_mask].res;
    __atomic_store_n(ring.complete_head, head + 1, __ATOMIC_RELEASE);
    return result;
}

/* ---- The ways to read, and to write. Each moves one whole record. */

static long read_position(unsigned char *to, off_t at)
{
    return lseek(fd, at, SEEK_SET) == at ? read(fd, to, RECORD) : -1;
}

static long read_stream(unsigned char *to, off_t at)
{
    FILE *stream = fopen(path, "r");
    long result = stream && !fseeko(stream, at, SEEK_SET) ? (long)fread(to, 1, RECORD, stream) : -1;
    if (stream)
        fclose(stream);
    return result;
}

static long read_sendfile(unsigned char *to, off_t at)
{
    off_t from = at;
    if (ftruncate(other, 0) || lseek(other, 0, SEEK_SET) || sendfile(other, fd, &from, RECORD) != RECORD)
        return -1;
    return syscall(SYS_pread64, other, to, RECORD, 0);
}

static long read_copy(unsigned char *to, off_t at)
{
    off64_t from = at, into = 0;
    if (ftruncate(other, 0) || copy_file_range(fd, &from, other, &into, RECORD, 0) != RECORD)
        return -1;
    return syscall(SYS_pread64, other, to, RECORD, 0);
}

static long read_splice(unsigned char *to, off_t at)
{
    int ends[2];
    off64_t from = at;
    if (pipe(ends))
        return -1;
    long done = 0;
    while (done < RECORD) {
        long part = splice(fd, &from, ends[1], NULL, (size_t)(RECORD - done), 0);
        if (part <= 0 || read(ends[0], to + done, (size_t)part) != part)
            break;
        done += part;
    }
    close(ends[0]);
    close(ends[1]);
    return done;
}

static long read_ring(unsigned char *to, off_t at)
{
    return by_ring(IORING_OP_READ, to, RECORD, at);
}

static long map(unsigned char *buffer, off_t at, int writes)
{
    off_t start = at & ~4095L;
    size_t bytes = (size_t)(at - start) + RECORD;
    unsigned char *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, start);
    if (mapped == MAP_FAILED)
        return -1;
    if (writes)
        memcpy(mapped + (at - start), buffer, RECORD);
    else
        memcpy(buffer, mapped + (at - start), RECORD);
    munmap(mapped, bytes);
    return RECORD;
}

static long read_map(unsigned char *to, off_t at)
{
    return map(to, at, 0);
}

static long read_raw(unsigned char *to, off_t at)
{
    return syscall(SYS_pread64, fd, to, RECORD, at);
}

static long read_vector(unsigned char *to, off_t at)
{
    struct iovec parts[] = {{to, 100}, {to + 100, 0}, {to + 100, RECORD - 100}};
    return preadv(fd, parts, 3, at);
}

static long write_position(unsigned char *from, off_t at)
{
    return lseek(fd, at, SEEK_SET) == at ? write(fd, from, RECORD) : -1;
}

static long write_stream(unsigned char *from, off_t at)
{
    FILE *stream = fopen(path, "r+");
    long result = stream && !fseeko(stream, at, SEEK_SET) ? (long)fwrite(from, 1, RECORD, stream) : -1;
    if (stream && fclose(stream))
        return -1;
    return result;
}

static long write_sendfile(unsigned char *from, off_t at)
{
    off_t start = 0;
    if (syscall(SYS_pwrite64, other, from, RECORD, 0) != RECORD || lseek(fd, at, SEEK_SET) != at)
        return -1;
    return sendfile(fd, other, &start, RECORD);
}

static long write_copy(unsigned char *from, off_t at)
{
    off64_t start = 0, into = at;
    if (syscall(SYS_pwrite64, other, from, RECORD, 0) != RECORD)
        return -1;
    return copy_file_range(other, &start, fd, &into, RECORD, 0);
}

static long write_splice(unsigned char *from, off_t at)
{
    int ends[2];
    off64_t into = at;
    if (pipe(ends) || write(ends[1], from, RECORD) != RECORD)
        return -1;
    long done = 0, part;
    while (done < RECORD && (part = splice(ends[0], NULL, fd, &into, (size_t)(RECORD - done), 0)) > 0)
        done += part;
    close(ends[0]);
    close(ends[1]);
    return done;
}

static long write_ring(unsigned char *from, off_t at)
{
    return by_ring(IORING_OP_WRITE, from, RECORD, at);
}

static long write_map(unsigned char *from, off_t at)
{
    return map(from, at, 1);
}

static long write_raw(unsigned char *from, off_t at)
{
    return syscall(SYS_pwrite64, fd, from, RECORD, at);
}

static long write_vector(unsigned char *from, off_t at)
{
    struct iovec parts[] = {{from, RECORD - 1}, {from + RECORD - 1, 1}};
    return pwritev(fd, parts, 2, at);
}

static const struct {
    const char *name;
    long (*read)(unsigned char *, off_t), (*write)(unsigned char *, off_t);
} WAYS[] = {
    {"position", read_position, write_position}, {"stdio", read_stream, write_stream},
    {"sendfile", read_sendfile, write_sendfile}, {"copy_file_range", read_copy, write_copy},
    {"splice", read_splice, write_splice},       {"io_uring", read_ring, write_ring},
    {"mmap", read_map, write_map},               {"raw", read_raw, write_raw},
    {"vectors", read_vector, write_vector},
};

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    path = argv[1];
    fd = open(path, O_RDWR);
    char beside[4096];
    snprintf(beside, sizeof beside, "%s.other", path);
    other = open(beside, O_RDWR | O_CREAT | O_TRUNC, 0666);
    if (fd < 0 || other < 0)
        fail(path);
    int has_ring = open_ring();
    if (!has_ring)
        printf("io_uring is missing: %s\n", strerror(errno));
    unsigned version = 0;
    for (size_t way = 0; way < sizeof WAYS / sizeof *WAYS; way++) {
        const char *name = WAYS[way].name;
        if (!has_ring && !strcmp(name, "io_uring"))
            continue;
        for (unsigned number = 0; number < RECORDS; number++) {
            unsigned char record[RECORD];
            off_t at = (off_t)number * RECORD;
            if (pread(fd, record, RECORD, at) != RECORD)
                fail("pread");
            must_be(record, number, version, "pread");
            /* Here by the library, there by the kernel. */
            fill(record, number, version + 1);
            if (pwrite(fd, record, RECORD, at) != RECORD)
                fail("pwrite");
            memset(record, 0, RECORD);
            if (WAYS[way].read(record, at) != RECORD)
                fail(name);
            must_be(record, number, version + 1, name);
            /* And back. */
            fill(record, number, version + 2);
            if (WAYS[way].write(record, at) != RECORD)
                fail(name);
            memset(record, 0, RECORD);
            if (pread(fd, record, RECORD, at) != RECORD)
                fail("pread");
            must_be(record, number, version + 2, name);
        }
        version += 2;
        printf("%s\n", name);
    }
    return 0;
}
