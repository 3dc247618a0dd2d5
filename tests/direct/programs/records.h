// Records of a file, each with a pattern that tells its number, its version and who wrote it.
#ifndef RECORDS_H
#define RECORDS_H
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RECORD = 12345, RECORDS = 200 };

static void fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(2);
}

static void fill(unsigned char *to, unsigned number, unsigned version)
{
    uint64_t state = number * 2654435761u + version * 40503u + 1;
    for (size_t i = 0; i < RECORD; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        to[i] = (unsigned char)(state >> 56);
    }
}

static void must_be(const unsigned char *found, unsigned number, unsigned version, const char *way)
{
    unsigned char wanted[RECORD];
    fill(wanted, number, version);
    for (size_t i = 0; i < RECORD; i++)
        if (found[i] != wanted[i]) {
            fprintf(stderr, "%s: record %u, version %u differs at byte %zu\n", way, number, version, i);
            exit(1);
        }
}
#endif
