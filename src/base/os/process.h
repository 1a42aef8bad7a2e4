/*
 * process.h - which process somebody is: enough to find it again, or to be sure that it cannot
 * be found.
 *
 * A process id means something only in its namespace, and is given to others when the process
 * has gone.  With the namespace and the time at which the process was started it belongs to one
 * process of a kernel, for good.
 */
#ifndef NX_PROCESS_H
#define NX_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct nx_process {
    uint32_t pid;
    uint64_t space;   /* the namespace of |pid|, by its inode; 0: not known */
    uint64_t started; /* ticks after the kernel's start; 0: not known */
} nx_process;

/* The calling process.  Where /proc does not tell, or is of another namespace, space and
 * started are 0. */
void nx_process_self(nx_process *out);

/*
 * A descriptor of |p|, a process of this kernel, which polls as readable when it has ended;
 * close-on-exec, the caller's.  -1: there is none, or it is not certain that it is |p|: it is of
 * another namespace, or hidden, or something is not known of it or of us; it is the calling
 * process itself; there is no such call in this kernel, or no descriptor is left.
 */
int nx_process_open(const nx_process *p);

/* Whether it is certain that |p|, a process of this kernel, has ended.  False: it is there, or
 * nothing can be said of it, as above. */
bool nx_process_ended(const nx_process *p);

enum { NX_PROCESS_STAT = 1024 }; /* room for the text of /proc/PID/stat */

/* The text of |path|, a stat of /proc.  False: there is none. */
bool nx_process_stat(const char *path, char *text, size_t room);
/* Its field |n|, 3 or a later one, up to a blank: see proc(5).  NULL: there are not so many. */
const char *nx_process_field(const char *text, int n);

/* Of the text of /proc/PID/stat: pid and started.  False: it is malformed. */
bool nx_process_parse(const char *text, nx_process *out);

#endif /* NX_PROCESS_H */
