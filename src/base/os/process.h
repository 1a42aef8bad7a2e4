/*
 * process.h - the identity of a process: enough to find it again, or to be certain that it has
 * exited.
 *
 * A process id is valid only in its namespace, and is reused after the process has exited. Together
 * with the namespace and the start time it identifies one process of a kernel permanently.
 */
#ifndef NX_PROCESS_H
#define NX_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct nx_process {
    uint32_t pid;
    uint64_t space;   /* inode of the namespace of |pid|; 0: unknown */
    uint64_t started; /* start time, in ticks after the kernel's start; 0: unknown */
} nx_process;

/* The calling process. If /proc is missing or of another namespace, space and started are 0. */
void nx_process_self(nx_process *out);

/*
 * A descriptor of |p|, a process of this kernel, that polls as readable when it has exited;
 * close-on-exec, owned by the caller. -1: there is none, or it is uncertain that it is |p| (another
 * namespace, hidden, or unknown fields); it is the calling process; the kernel has no such call, or
 * no descriptor is left.
 */
int nx_process_open(const nx_process *p);

/* Whether |p|, a process of this kernel, has certainly exited. False: it exists, or that is
 * unknown, as above. */
bool nx_process_ended(const nx_process *p);

enum { NX_PROCESS_STAT = 1024 }; /* room for the text of /proc/PID/stat */

/* Reads |path|, a stat file of /proc, into |text|. False: there is none. */
bool nx_process_stat(const char *path, char *text, size_t room);
/* Its field |n|, 3 or later, up to a blank: see proc(5). NULL: there is no such field. */
const char *nx_process_field(const char *text, int n);

/* Parses pid and start time from the text of /proc/PID/stat. False: malformed. */
bool nx_process_parse(const char *text, nx_process *out);

#endif /* NX_PROCESS_H */
