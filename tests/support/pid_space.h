/*
 * pid_space.h - processes with ids that a test chooses, in a pid namespace of its own.
 */
#ifndef NXT_PID_SPACE_H
#define NXT_PID_SPACE_H

#include <stdbool.h>
#include <sys/types.h>

/* Runs |body| in a process that is the first of a new pid namespace, and waits for its end: with
 * |body|'s return value, 0 if all is well, which is returned.  Call it before there are threads.
 * -1: the machine does not permit such namespaces, or the ids in them cannot be chosen. */
int nxt_pid_space_run(int (*body)(void *arg), void *arg);

/* In |body|: fork(), but the child's id is |pid|, which nobody has. */
pid_t nxt_pid_space_fork(pid_t pid);

#endif /* NXT_PID_SPACE_H */
