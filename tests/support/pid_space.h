/*
 * pid_space.h - processes with ids chosen by a test, in a new pid namespace.
 */
#ifndef NXT_PID_SPACE_H
#define NXT_PID_SPACE_H

#include <stdbool.h>
#include <sys/types.h>

/* Runs |body| in the first process of a new pid namespace and waits for its end. Returns
 * |body|'s return value, 0 for success. Call it before there are threads. -1: the machine does
 * not permit such namespaces, or their ids cannot be chosen. */
int nxt_pid_space_run(int (*body)(void *arg), void *arg);

/* In |body|: fork(), but the child's id is |pid|, which must be free. */
pid_t nxt_pid_space_fork(pid_t pid);

#endif /* NXT_PID_SPACE_H */
