/* What programs do to descriptors, signals, threads and processes behind a library's back, one case a run.
 *
 * usage: hazards CASE, in an empty directory
 * Exit codes: 0 as without the library, 1 not (on stderr), 2 it could not run. After a minute a signal ends it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 64, RUN_S_MAX = 60 };

static unsigned char buffer[PAGES * PAGE];
static const char *program;
static volatile int is_malloc_forbidden;
static int ends[2];

extern void *__libc_malloc(size_t bytes);
extern void (*__sysv_signal(int signal, void (*handler)(int)))(int);

static void fail(const char *what)
{
    fprintf(stderr, "hazards: %s: %s\n", what, strerror(errno));
    exit(2);
}

static int wrong(const char *what)
{
    fprintf(stderr, "hazards: %s\n", what);
    return 1;
}

void *malloc(size_t bytes)
{
    if (is_malloc_forbidden)
        raise(SIGABRT);
    return __libc_malloc(bytes);
}

static int filled(const char *name, int byte)
{
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
    memset(buffer, byte, sizeof buffer);
    if (fd < 0 || write(fd, buffer, sizeof buffer) != sizeof buffer)
        fail(name);
    return fd;
}

/* Often enough to be served. */
static void read_often(int fd)
{
    unsigned char page[PAGE];
    for (int i = 0; i < 200; i++)
        if (pread(fd, page, PAGE, i % 32 * PAGE) != PAGE)
            fail("pread");
}

static void write_often(int fd)
{
    for (int i = 0; i < 200; i++)
        if (pwrite(fd, buffer, PAGE, i % 32 * PAGE) != PAGE)
            fail("pwrite");
}

static int first_byte(int fd, int byte, const char *what)
{
    unsigned char served = 0, raw = 0;
    if (pread(fd, &served, 1, 0) != 1 || syscall(SYS_pread64, fd, &raw, 1L, 0L) != 1)
        fail(what);
    return served == byte && raw == byte ? 0 : wrong(what);
}

/* ---- Threads that are cancelled */

static void *in_read(void *calls)
{
    char byte;
    for (long i = 0; i <= (long)calls; i++)
        if (read(ends[0], &byte, 1) != 1)
            break;
    return NULL;
}

static void *in_open(void *name)
{
    return (void *)(long)open(name, O_RDONLY);
}

static void *in_recvmsg(void *unused)
{
    char bytes[4];
    struct iovec part = {bytes, sizeof bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    (void)unused;
    return (void *)recvmsg(ends[0], &message, 0);
}

static void *in_pread(void *fd)
{
    unsigned char page[PAGE];
    while (pread(*(int *)fd, page, PAGE, 0) == PAGE) {
    }
    return NULL;
}

static void *in_pwrite(void *fd)
{
    while (pwrite(*(int *)fd, buffer, PAGE, 0) == PAGE) {
    }
    return NULL;
}

static int cancelled(void *(*work)(void *), void *argument)
{
    pthread_t thread;
    void *result;
    if (pthread_create(&thread, NULL, work, argument))
        fail("a thread");
    /* It has begun what it does, or will: both must end. */
    usleep(50000);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    return result == PTHREAD_CANCELED ? 0 : wrong("a thread was not cancelled");
}

static int cancel(const char *where)
{
    if (strcmp(where, "first read") == 0 || strcmp(where, "read") == 0) {
        long calls = strcmp(where, "read") == 0 ? 3 : 0;
        if (pipe(ends) || write(ends[1], "abc", (size_t)calls) != calls)
            fail("pipe");
        return cancelled(in_read, (void *)calls);
    }
    if (strcmp(where, "open") == 0)
        return mkfifo("pipe", 0600) ? 2 : cancelled(in_open, "pipe");
    if (strcmp(where, "recvmsg") == 0)
        return socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) ? 2 : cancelled(in_recvmsg, NULL);
    int fd = filled("file", 1);
    return cancelled(strcmp(where, "pread") == 0 ? in_pread : in_pwrite, &fd);
}

/* ---- Descriptors that are closed and opened by other ways */

static int numbers_are_reused(int (*close_by)(int), int (*open_by)(void))
{
    int old = filled("old", 1);
    read_often(old);
    if (close_by(old))
        fail("close");
    int new = open_by();
    if (new != old)
        fail("the number was not used again");
    memset(buffer, 7, sizeof buffer);
    long written;
    __asm__ volatile("syscall"
                     : "=a"(written)
                     : "a"(SYS_write), "D"((long)new), "S"(buffer), "d"(sizeof buffer)
                     : "rcx", "r11", "memory");
    if (written != sizeof buffer || first_byte(new, 7, "a descriptor showed a file of before"))
        return 1;
    write_often(new);
    int by_name = open("old", O_RDONLY);
    return first_byte(new, 7, "a descriptor showed a file of before") || first_byte(by_name, 1, "another file was written");
}

static int close_by_syscall(int fd)
{
    return (int)syscall(SYS_close, fd);
}

static int close_raw(int fd)
{
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(SYS_close), "D"((long)fd) : "rcx", "r11", "memory");
    return (int)result;
}

static int open_temporary(void)
{
    char name[] = "newXXXXXX";
    return mkstemp(name);
}

static int open_raw(void)
{
    long fd;
    __asm__ volatile("syscall"
                     : "=a"(fd)
                     : "a"(SYS_open), "D"("new"), "S"(O_RDWR | O_CREAT), "d"(0644)
                     : "rcx", "r11", "memory");
    return (int)fd;
}

/* An io_uring, here as what says that descriptors may change unseen. */
static int has_ring(void)
{
    struct io_uring_params given = {0};
    long ring = syscall(SYS_io_uring_setup, 4L, &given);
    return ring < 0 ? 0 : numbers_are_reused(close_raw, open_raw);
}

/* As programs that close each file by syscall(): what was mapped goes with it. */
static int files_go(void)
{
    for (int i = 0; i < 300; i++) {
        int fd = filled("file", i);
        read_often(fd);
        unlink("file");
        syscall(SYS_close, fd);
    }
    FILE *maps = fopen("/proc/self/maps", "r");
    int mapped = 0;
    for (char line[512]; fgets(line, sizeof line, maps);)
        mapped += strstr(line, "/file (deleted)") != NULL;
    fclose(maps);
    return mapped > 2 ? wrong("files stay mapped that were closed") : 0;
}

static int copied(pid_t (*copy)(void))
{
    int fd = filled("file", 1), status;
    read_often(fd);
    pid_t pid = copy();
    if (pid == 0) {
        close(fd);
        int new = open_raw();
        if (new != fd || write(new, "xyz", 3) != 3)
            _exit(2);
        _exit(first_byte(new, 'x', "a copied process saw a file that it had closed"));
    }
    if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
        return wrong("a copied process was ended");
    return WEXITSTATUS(status) || first_byte(fd, 1, "the file of the process was changed by its copy");
}

static pid_t copy_by_clone(void)
{
    return (pid_t)syscall(SYS_clone, SIGCHLD, 0L, 0L, 0L, 0L);
}

static int daemon_has_other_streams(void)
{
    int fd = filled("file", 1), status;
    char byte;
    dup2(fd, 0);
    read_often(0);
    pid_t pid = fork();
    if (pid == 0) {
        /* A daemon is no child any more: it says by a pipe what it read. */
        if (pipe(ends) != 0)
            _exit(2);
        pid_t below = fork();
        if (below == 0) {
            if (daemon(1, 0) != 0)
                _exit(2);
            char count = (char)pread(0, &byte, 1, 0);
            syscall(SYS_write, ends[1], &count, 1L);
            _exit(0);
        }
        close(ends[1]);
        _exit(read(ends[0], &byte, 1) != 1 || byte != 0);
    }
    return waitpid(pid, &status, 0) != pid || status ? wrong("a daemon reads what was its input before") : 0;
}

/* ---- Times */

static struct timespec mtime(const char *name)
{
    struct stat found;
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(SYS_stat), "D"(name), "S"(&found) : "rcx", "r11", "memory");
    if (result)
        fail(name);
    return found.st_mtim;
}

/* The file was written some time ago, and again now: is its time of now? */
static int time_moves(void (*then)(int))
{
    int fd = filled("file", 1);
    read_often(fd);
    write_often(fd);
    struct timespec before = mtime("file");
    usleep(50000);
    write_often(fd);
    then(fd);
    struct timespec now = mtime("file");
    return now.tv_sec == before.tv_sec && now.tv_nsec == before.tv_nsec ? wrong("mtime is of an earlier write") : 0;
}

static void run_another(int fd)
{
    (void)fd;
    if (system("true") != 0)
        fail("system");
}

static void look(int fd)
{
    struct stat found;
    fstat(fd, &found);
}

static int of_another_s(void)
{
    if (geteuid() != 0)
        return 0;
    /* Who may write the file, but is not its owner and may not act as such. */
    prctl(PR_CAPBSET_DROP, 3L, 0L, 0L, 0L);
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        execl(program, program, "owned", NULL);
        _exit(2);
    }
    return waitpid(pid, &status, 0) != pid || status != 0;
}

static void give_away(int fd)
{
    if (fchown(fd, 4711, 4711) != 0)
        fail("fchown");
}

static int owned(void)
{
    give_away(filled("file", 1));
    return time_moves(look);
}

static char earlier[64];

static void print_time(char *text)
{
    struct timespec now = mtime("file");
    snprintf(text, sizeof earlier, "%ld.%09ld", (long)now.tv_sec, now.tv_nsec);
}

static int replaced(char **arguments)
{
    char text[sizeof earlier];
    print_time(text);
    if (strcmp(arguments[3], "3") || strcmp(arguments[4], "4") || strcmp(arguments[5], "5") || strcmp(arguments[6], "6"))
        return wrong("an argument is another");
    return strcmp(text, arguments[2]) ? 0 : wrong("mtime is of an earlier write");
}

static void become(int fd)
{
    (void)fd;
    /* More arguments than registers. */
    execl(program, program, "replaced", earlier, "3", "4", "5", "6", NULL);
    fail(program);
}

static int becomes_another(void)
{
    int fd = filled("file", 1);
    read_often(fd);
    write_often(fd);
    print_time(earlier);
    usleep(50000);
    write_often(fd);
    become(fd);
    return 2;
}

static int child_of_vfork_has_another_file(void)
{
    int fd = filled("file", 1), other = open("other", O_RDWR | O_CREAT, 0644);
    struct timespec old[2] = {{1, 0}, {1, 0}};
    futimens(other, old);
    read_often(fd);
    write_often(fd);
    pid_t pid = vfork();
    if (pid == 0) {
        dup2(other, fd);
        execv("/bin/true", (char *[]){"true", NULL});
        _exit(1);
    }
    waitpid(pid, NULL, 0);
    return mtime("other").tv_sec == 1 ? first_byte(fd, 1, "the file is another") : wrong("another file's time was set");
}

/* ---- Signals */

static void cut(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        if (truncate("file", 0) != 0)
            _exit(1);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
}

static void *read_what_is_cut(void *fd)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    /* Only now is anything mapped. */
    read_often(*(int *)fd);
    cut();
    unsigned char page[PAGE];
    return (void *)pread(*(int *)fd, page, PAGE, 0);
}

static int blocked(void)
{
    int fd = open("file", O_RDWR | O_CREAT, 0644);
    if (ftruncate(fd, PAGES * PAGE) != 0 || pwrite(fd, buffer, sizeof buffer, 0) != sizeof buffer)
        fail("file");
    pthread_t thread;
    void *result;
    pthread_create(&thread, NULL, read_what_is_cut, &fd);
    pthread_join(thread, &result);
    return result == NULL ? 0 : wrong("there was something to read");
}

static int handled_fd;
static volatile ssize_t handled = -2;

static void on_alarm(int signal)
{
    unsigned char page[PAGE];
    (void)signal;
    cut();
    handled = pread(handled_fd, page, PAGE, 0);
}

static int blocked_in_handler(void)
{
    struct sigaction action = {.sa_handler = on_alarm};
    sigfillset(&action.sa_mask);
    sigaction(SIGUSR1, &action, NULL);
    handled_fd = filled("file", 1);
    read_often(handled_fd);
    raise(SIGUSR1);
    return handled == 0 ? 0 : wrong("a handler read something else");
}

static void on_fault(int signal)
{
    _exit(wrong(signal == SIGSEGV ? "the program's handler got a fault of pread" : "another signal"));
}

static int old_signal(void)
{
    int fd = filled("file", 1);
    read_often(fd);
    __sysv_signal(SIGSEGV, on_fault);
    void *volatile bad = (void *)8;
    return pread(fd, bad, PAGE, 0) == -1 && errno == EFAULT ? 0 : wrong("a bad buffer was no EFAULT");
}

/* ---- Limits that a program sets itself */

static int filtered(void)
{
    int status;
    filled("file", 1);
    pid_t pid = fork();
    if (pid == 0) {
        unsigned char page[PAGE];
        int fd = open("file", O_RDWR);
        read_often(fd);
        if (read(fd, page, PAGE) != PAGE)
            _exit(2);
        /* From here on only read, write and the end of the thread. */
        prctl(PR_SET_SECCOMP, 1L, 0L, 0L, 0L);
        long is_wrong = read(fd, page, PAGE) != PAGE || write(fd, page, PAGE) != PAGE;
        syscall(SYS_exit, is_wrong);
    }
    return waitpid(pid, &status, 0) != pid || status ? wrong("a program with a filter for system calls was ended") : 0;
}

static int locks_all(void)
{
    int fd = filled("file", 1);
    read_often(fd);
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0)
        return 0; /* Not allowed. */
    read_often(fd);
    FILE *maps = fopen("/proc/self/maps", "r");
    int mapped = 0;
    for (char line[512]; fgets(line, sizeof line, maps);)
        mapped += strstr(line, "/file\n") != NULL;
    fclose(maps);
    return mapped ? wrong("a file is locked into memory") : 0;
}

/* ---- Memory */

static int small_address_space(void)
{
    struct rlimit limit = {256 << 20, 256 << 20};
    setrlimit(RLIMIT_AS, &limit);
    for (int i = 0; i < 8; i++) {
        char name[16];
        snprintf(name, sizeof name, "file%d", i);
        read_often(filled(name, i));
    }
    void *more = mmap(NULL, 100 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return more == MAP_FAILED ? wrong("no memory is left for the program") : 0;
}

static int holes_of_another_s(void)
{
    int fd = open("file", O_RDWR | O_CREAT, 0644);
    struct stat before, after;
    if (ftruncate(fd, PAGES * PAGE) != 0 || pwrite(fd, buffer, PAGE, 0) != PAGE ||
        pwrite(fd, "x", 1, PAGES * PAGE - 1) != 1)
        fail("file");
    if (geteuid() == 0 && (setgid(4711) || setuid(4711)))
        fail("setuid");
    int reading = open("file", O_RDONLY);
    fstat(reading, &before);
    read_often(reading);
    fstat(reading, &after);
    return before.st_blocks == after.st_blocks ? 0 : wrong("reading filled holes");
}

static int ends_while_it_allocates(void)
{
    read_often(filled("file", 1));
    is_malloc_forbidden = 1;
    _exit(0);
}

/* ---- Files that are cut while others are unmapped */

static volatile int is_cutting = 1;

static void *cut_often(void *fd)
{
    for (off_t bytes = PAGE; is_cutting; bytes ^= PAGE)
        if (ftruncate(*(int *)fd, bytes))
            return fd;
    return NULL;
}

/* What is known of a file that ends so far in takes long to forget. */
static int cut_while_another_closes(void)
{
    enum { ROUNDS = 400 };
    const off_t last = (off_t)8 << 30;
    int small = filled("small", 1);
    pthread_t thread;
    void *result = NULL;
    if (pthread_create(&thread, NULL, cut_often, &small))
        fail("a thread");
    for (int i = 0; i < ROUNDS; i++) {
        int fd = open("large", O_RDWR | O_CREAT, 0644);
        if (fd < 0 || pwrite(fd, buffer, PAGE, last) != PAGE)
            fail("large");
        for (int read = 0; read < 4; read++)
            if (pread(fd, buffer, PAGE, last) != PAGE)
                return wrong("the last page is gone");
        close(fd);
    }
    is_cutting = 0;
    pthread_join(thread, &result);
    return result ? wrong("a file was not cut") : 0;
}

int main(int count, char **arguments)
{
    if (count < 2)
        return 2;
    const char *which = arguments[1];
    program = arguments[0];
    alarm(RUN_S_MAX);
    if (strncmp(which, "cancel ", 7) == 0)
        return cancel(which + 7);
    if (strcmp(which, "closed by syscall") == 0)
        return numbers_are_reused(close_by_syscall, open_temporary);
    if (strcmp(which, "opened unseen") == 0)
        return numbers_are_reused(close, open_raw);
    if (strcmp(which, "closed and opened unseen") == 0)
        return numbers_are_reused(close_by_syscall, open_raw);
    if (strcmp(which, "ring") == 0)
        return has_ring();
    if (strcmp(which, "files go") == 0)
        return files_go();
    if (strcmp(which, "_Fork") == 0)
        return copied(_Fork);
    if (strcmp(which, "clone") == 0)
        return copied(copy_by_clone);
    if (strcmp(which, "daemon") == 0)
        return daemon_has_other_streams();
    if (strcmp(which, "system") == 0)
        return time_moves(run_another);
    if (strcmp(which, "of another's") == 0)
        return of_another_s();
    if (strcmp(which, "cut and close") == 0)
        return cut_while_another_closes();
    if (strcmp(which, "owned") == 0)
        return owned();
    if (strcmp(which, "exec") == 0)
        return becomes_another();
    if (strcmp(which, "replaced") == 0 && count == 7)
        return replaced(arguments);
    if (strcmp(which, "vfork") == 0)
        return child_of_vfork_has_another_file();
    if (strcmp(which, "blocked") == 0)
        return blocked();
    if (strcmp(which, "blocked in a handler") == 0)
        return blocked_in_handler();
    if (strcmp(which, "old signal") == 0)
        return old_signal();
    if (strcmp(which, "filter") == 0)
        return filtered();
    if (strcmp(which, "locks all") == 0)
        return locks_all();
    if (strcmp(which, "address space") == 0)
        return small_address_space();
    if (strcmp(which, "holes") == 0)
        return holes_of_another_s();
    if (strcmp(which, "allocates") == 0)
        return ends_while_it_allocates();
    return 2;
}
