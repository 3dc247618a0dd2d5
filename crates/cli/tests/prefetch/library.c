/* A library whose only function lies in 2 MiB of its own: its page is first used when the function is called. */
#include <stdio.h>

__attribute__((aligned(2097152))) void late(void) { puts("late"); }
__attribute__((aligned(65536))) const char padding[65536] = "x";
