// usage: rewrite FILE [FROM TO]
// Reads all records of version FROM by pread, writes version TO by pwrite, and prints the user that it acts for. Without
// versions it makes the file, with version 0.
#include "records.h"

int main(int argc, char **argv)
{
    if (argc != 4 && argc != 2)
        return 2;
    unsigned char record[RECORD];
    int makes = argc == 2;
    unsigned from = makes ? 0 : (unsigned)atoi(argv[2]), to = makes ? 0 : (unsigned)atoi(argv[3]);
    int fd = open(argv[1], O_RDWR | (makes ? O_CREAT | O_TRUNC : 0), 0666);
    if (fd < 0 || (makes && fchmod(fd, 0666)))
        fail(argv[1]);
    for (unsigned number = 0; number < RECORDS; number++) {
        if (!makes) {
            if (pread(fd, record, RECORD, (off_t)number * RECORD) != RECORD)
                fail("pread");
            must_be(record, number, from, "pread");
        }
        fill(record, number, to);
        if (pwrite(fd, record, RECORD, (off_t)number * RECORD) != RECORD)
            fail("pwrite");
    }
    printf("user %u\n", (unsigned)geteuid());
    return 0;
}
