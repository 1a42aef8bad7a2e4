/*
 * pty.h - a pseudo-terminal for the output of one process.
 *
 * A program that writes to a terminal flushes after each line. A program that writes to a pipe
 * flushes after 4 KiB. This terminal transmits bytes unchanged: no newline translation, no echo,
 * no signals from bytes. It never becomes the controlling terminal of a process here.
 */
#ifndef NX_PTY_H
#define NX_PTY_H

#include <stdbool.h>
#include <sys/ioctl.h>

#include "base/error.h"

/*
 * Opens a terminal: the process writes to |*theirs|. Reading |*ours| returns these bytes, then
 * EIO when no process has |*theirs| open. Both are close-on-exec. |window| may be NULL.
 *
 * NEXAR_ESYS
 *     No terminal is available; |*code| is the errno. Too many are open, or no devpts is mounted.
 */
NX_MUST_CHECK nexar_err nx_pty_open(const struct winsize *window, int *ours, int *theirs,
                                    int *code);

/* The size of the terminal |fd|. False: |fd| is no terminal, or has no size. */
bool nx_pty_window(int fd, struct winsize *window);

#endif /* NX_PTY_H */
