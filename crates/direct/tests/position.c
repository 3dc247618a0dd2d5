/* Threads that read one descriptor at its position, at the end of a file that grows: each record is read once, whole.
 *
 * usage: position FILE RECORDS
 * Exit codes: 0 as it should be, 1 not (on stderr), 2 it could not run. After three minutes a signal ends it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A record lies in one page, so that the kernel shows it as a whole or not at all. */
enum { READERS = 3, RECORD_WORDS = 64, RUN_S_MAX = 180 };

static int reading, writing;
static long records;
static atomic_long found;
static atomic_uchar *seen;

static void fail(const char *what)
{
    fprintf(stderr, "position: %s: %s\n", what, strerror(errno));
    exit(2);
}

static void *append(void *unused)
{
    (void)unused;
    long record[RECORD_WORDS];
    for (long number = 0; number < records; number++) {
        for (int word = 0; word < RECORD_WORDS; word++)
            record[word] = number;
        if (write(writing, record, sizeof record) != sizeof record)
            fail("appending");
        /* The readers come close to the end again and again. */
        while (number - atomic_load(&found) > 20)
            sched_yield();
    }
    return NULL;
}

static void *read_all(void *unused)
{
    (void)unused;
    long record[RECORD_WORDS];
    while (atomic_load(&found) < records) {
        ssize_t got = read(reading, record, sizeof record);
        if (got < 0)
            fail("reading");
        if (got == 0)
            continue;
        for (int word = 0; word < RECORD_WORDS; word++)
            if (got != sizeof record || record[word] != record[0] || record[0] < 0 || record[0] >= records) {
                fprintf(stderr, "position: %zd bytes of %ld, with %ld in word %d\n", got, record[0], record[word], word);
                exit(1);
            }
        if (atomic_fetch_add(&seen[record[0]], 1) != 0) {
            fprintf(stderr, "position: record %ld was read twice\n", record[0]);
            exit(1);
        }
        atomic_fetch_add(&found, 1);
    }
    return NULL;
}

int main(int count, char **arguments)
{
    pthread_t writer, readers[READERS];
    if (count != 3 || (records = atol(arguments[2])) <= 0) {
        fprintf(stderr, "usage: position FILE RECORDS\n");
        return 2;
    }
    alarm(RUN_S_MAX);
    seen = calloc(records, sizeof *seen);
    writing = open(arguments[1], O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
    reading = open(arguments[1], O_RDONLY);
    if (seen == NULL || writing < 0 || reading < 0)
        fail(arguments[1]);
    if (pthread_create(&writer, NULL, append, NULL))
        fail("a thread");
    for (int i = 0; i < READERS; i++)
        if (pthread_create(&readers[i], NULL, read_all, NULL))
            fail("a thread");
    for (int i = 0; i < READERS; i++)
        pthread_join(readers[i], NULL);
    pthread_join(writer, NULL);
    return 0;
}
