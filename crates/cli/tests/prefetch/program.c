/* Reads what its arguments say, so that a recorder can be tested against a known set.
   usage: program FIRST SECOND WAIT_MS [MODE [LIBRARY]]
   It reads 1 MiB of FIRST from 1 MiB on, waits, reads SECOND whole through a mapping, and waits again. If WAIT_MS is a path,
   it waits for files instead: PATH.1 the first time, PATH.2 the second time, but for at most 30 seconds.
   Modes: fork (a child reads), thread (a thread reads), exec (executes itself without modes), dlopen (loads libm),
   ptrace (traces a child of its own), traceme (is traced by its parent). Instead of reading SECOND itself after the wait:
   threads (8 threads do, which were started before), child (a child does, which was started before), traced (a child that
   it traces does), library (a thread calls the function `late` of a library, which is loaded after the thread is started). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char **args;
static long sum;
static int wait_us;

static void wait_for(int time) {
    char path[4096];
    snprintf(path, sizeof path, "%s.%d", args[3], time);
    if (args[3][0] != '/') usleep(wait_us);
    for (int i = 0; args[3][0] == '/' && access(path, F_OK) != 0 && i < 30000; i++) usleep(1000);
}

static void read_first(void) {
    static char buffer[1 << 20];
    int fd = open(args[1], O_RDONLY);
    if (fd < 0) exit(9);
    if (pread(fd, buffer, sizeof buffer, 1 << 20) != sizeof buffer) exit(9);
    for (size_t i = 0; i < sizeof buffer; i++) sum += buffer[i];
    close(fd);
}

static void read_second(void);

static void *in_thread(void *unused) {
    read_first();
    return unused;
}

static void *late_thread(void *unused) {
    wait_for(1);
    read_second();
    return unused;
}

static void (*late)(void);

static void *late_call(void *unused) {
    void (*found)(void);
    wait_for(1);
    while ((found = __atomic_load_n(&late, __ATOMIC_ACQUIRE)) == NULL) usleep(1000);
    found();
    wait_for(2);
    return unused;
}

/* Returns the exit status of a child that reads SECOND, stopped once for its parent if that traces it. */
static int late_child(int traced) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        if (traced && ptrace(PTRACE_TRACEME, 0, 0, 0) != 0) _exit(8);
        if (traced) raise(19);
        wait_for(1);
        read_second();
        _exit(0);
    }
    while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
        printf("stopped by %d\n", WSTOPSIG(status));
        ptrace(PTRACE_CONT, child, 0, 0);
    }
    return status;
}

/* In 2 MiB of its own, since a page is mapped with its whole folio: it is executed once, after the wait.
   Nothing but `main` follows it: the program is compiled in this order. */
__attribute__((noinline, aligned(2097152))) static void read_second(void) {
    struct stat info;
    int fd = open(args[2], O_RDONLY);
    if (fd < 0 || fstat(fd, &info) != 0) exit(9);
    char *data = mmap(NULL, info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    long own = 0;
    for (off_t i = 0; i < info.st_size; i += 4096) own += data[i];
    __atomic_fetch_add(&sum, own, __ATOMIC_RELAXED);
    close(fd);
    wait_for(2);
}
__attribute__((aligned(65536))) static const char padding[65536] = "x";

/* Likewise apart from what comes before it. */
__attribute__((aligned(2097152))) int main(int count, char **words) {
    args = words;
    const char *mode = count > 4 ? words[4] : "";
    int status = 0;
    wait_us = atoi(words[3]) * 1000;
    /* What the wait executes has been executed before: nothing but the second reading is new after it. */
    close(-1);
    usleep(1);
    access("/", F_OK);
    if (!strcmp(mode, "exec")) {
        char *again[] = {words[0], words[1], words[2], words[3], NULL};
        execv("/proc/self/exe", again);
        return 9;
    }
    if (!strcmp(mode, "ptrace")) {
        pid_t child = fork();
        if (child == 0) {
            if (ptrace(PTRACE_TRACEME, 0, 0, 0) != 0) _exit(8);
            raise(19);
            _exit(7);
        }
        waitpid(child, &status, 0);
        if (WIFSTOPPED(status)) {
            ptrace(PTRACE_CONT, child, 0, 0);
            waitpid(child, &status, 0);
        }
        printf("child %d\n", WEXITSTATUS(status));
    }
    if (!strcmp(mode, "fork")) {
        pid_t child = fork();
        if (child == 0) {
            read_first();
            _exit(0);
        }
        waitpid(child, &status, 0);
    } else if (!strcmp(mode, "thread")) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, in_thread, NULL) != 0) return 9;
        pthread_join(thread, NULL);
    } else {
        read_first();
    }
    if (!strcmp(mode, "dlopen") && dlopen("libm.so.6", RTLD_NOW) == NULL) return 9;
    if (!strcmp(mode, "traceme")) printf("traced %ld\n", ptrace(PTRACE_TRACEME, 0, 0, 0));
    if (!strcmp(mode, "threads")) {
        pthread_t threads[8];
        for (int i = 0; i < 8; i++)
            if (pthread_create(&threads[i], NULL, late_thread, NULL) != 0) return 9;
        for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
    } else if (!strcmp(mode, "child") || !strcmp(mode, "traced")) {
        status = late_child(!strcmp(mode, "traced"));
    } else if (!strcmp(mode, "library")) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, late_call, NULL) != 0) return 9;
        void *library = dlopen(words[5], RTLD_NOW);
        if (library == NULL) return 9;
        __atomic_store_n(&late, (void (*)(void))dlsym(library, "late"), __ATOMIC_RELEASE);
        pthread_join(thread, NULL);
    } else {
        wait_for(1);
        read_second();
    }
    printf("sum %ld %c\n", sum, padding[0]);
    return 3 + status;
}
