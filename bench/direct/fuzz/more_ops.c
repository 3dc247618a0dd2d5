/* Descriptors that come and go by ways that are seldom seen: libc's syscall(), temporary files, openat2, and children that
 * share this process's memory or are copied without fork(). */
#include "fuzz.h"

#include <linux/openat2.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

static void op_close_call(struct call *call)
{
    if (!take_slot(call, false)) {
        call->name = NULL;
        return;
    }
    int slot = call->slot;
    call->a = slot;
    if (one_in(2)) {
        BOTH(call, syscall(SYS_close, call->fd[s]));
    } else {
        call->name = "close_range by syscall()";
        BOTH(call, syscall(SYS_close_range, call->fd[s], call->fd[s], 0));
    }
    forget(slot);
    call->slot = -1;
}

static void op_dup_call(struct call *call)
{
    int slot = free_slot();
    if (slot < 0 || !take_slot(call, false)) {
        call->name = NULL;
        return;
    }
    call->a = call->slot;
    if (one_in(2)) {
        BOTH(call, syscall(SYS_dup, call->fd[s]));
    } else {
        call->name = "F_DUPFD by syscall()";
        BOTH(call, syscall(SYS_fcntl, call->fd[s], F_DUPFD_CLOEXEC, 0));
    }
    keep(call, slot);
}

/* Over a descriptor that is closed by that. */
static void op_dup_over_call(struct call *call)
{
    struct call over = *call;
    if (!take_slot(&over, false) || !take_slot(call, false) || over.slot == call->slot) {
        call->name = NULL;
        return;
    }
    call->a = over.slot;
    BOTH(call, syscall(SYS_dup3, call->fd[s], over.fd[s], O_CLOEXEC));
    same("dup3 gave the number", call->ret[0] == over.fd[0], call->ret[1] == over.fd[1]);
    call->ret[0] = over.fd[0];
    call->ret[1] = over.fd[1];
    keep(call, over.slot);
}

static void op_open_call(struct call *call)
{
    int slot = free_slot();
    if (slot < 0) {
        call->name = NULL;
        return;
    }
    long name = below(NAMES);
    struct open_how how = {.flags = (one_in(4) ? O_RDONLY : O_RDWR | O_CREAT) | O_CLOEXEC};
    how.mode = how.flags & O_CREAT ? 0644 : 0;
    call->a = name;
    call->b = (long)how.flags;
    BOTH(call, syscall(SYS_openat2, AT_FDCWD, w.path[s][name], &how, sizeof how));
    keep(call, slot);
}

/* Its name is another on each side, and is gone at once. */
static void op_temporary(struct call *call)
{
    int slot = free_slot();
    if (slot < 0) {
        call->name = NULL;
        return;
    }
    bool with_end = one_in(3);
    for (int s = 0; s < SIDES; s++) {
        char path[2 * PATH_ROOM];
        snprintf(path, sizeof path, "%s/tXXXXXX%s", w.options.directory[s], with_end ? ".end" : "");
        errno = 0;
        call->ret[s] = with_end ? mkostemps(path, 4, O_CLOEXEC) : mkstemp(path);
        call->err[s] = call->ret[s] == -1 ? errno : 0;
        if (call->ret[s] >= 0)
            RAW(SYS_unlink, path);
    }
    keep(call, slot);
}

/* The child has this process's memory and descriptors of its own: what it closes and opens is nothing to its parent. */
static void op_vfork(struct call *call)
{
    struct call other = *call;
    if (!take_slot(&other, false) || !take_slot(call, false)) {
        call->name = NULL;
        return;
    }
    call->a = other.slot;
    const char *path = w.path[one_in(2)][below(NAMES)];
    hold_timer(true);
    pid_t pid = vfork();
    if (pid == 0) {
        for (int s = 0; s < SIDES; s++) {
            dup2(other.fd[s], call->fd[s]);
            close(other.fd[s]);
            close(open(path, O_RDONLY));
            open(path, O_RDWR);
        }
        _exit(0);
    }
    if (pid < 0 || waitpid(pid, NULL, 0) != pid)
        abort();
    hold_timer(false);
}

struct entry more_entries[] = {
    {"close by syscall()", 8, op_close_call, CHILD, 0, 0},
    {"dup by syscall()", 3, op_dup_call, CHILD | DISTURBS, 0, 0},
    {"dup3 by syscall()", 2, op_dup_over_call, CHILD | DISTURBS, 0, 0},
    {"openat2", 6, op_open_call, CHILD, 0, 0},
    {"temporary file", 3, op_temporary, CHILD, 0, 0},
    {"vfork", 1, op_vfork, DISTURBS, 0, 0},
    {NULL, 0, NULL, 0, 0, 0},
};
