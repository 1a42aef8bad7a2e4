/*
 * on_error.h - what follows when a public call is about to return an error.
 *
 * Every public call that returns nexar_err goes through nx_returned().  No call names it: the
 * build makes the public functions from nexar.h (cmake/public_calls.awk), and inside the library
 * nexar_send(), say, is nx_api_send().  So a call that is added to nexar.h obeys the setting
 * "on_error", and calls inside the library never do.
 *
 * The setting is the process's: that of the world that was begun last.
 */
#ifndef NX_ON_ERROR_H
#define NX_ON_ERROR_H

#include <nexar.h>
#include <stdbool.h>

/* The exit code of a job that an error has ended. */
enum { NX_ON_ERROR_CODE = 1 };

/* Whether errors end the job from now on. */
void nx_on_error_set(bool abort);
/* |world| was made: it is the one that an error ends.  |world| is about to end: it is not any
 * more. */
void nx_on_error_open(nexar_comm *world);
void nx_on_error_close(const nexar_comm *world);

/* |err|, unless it ends the job; not with a lock held.  Once this process is about to end, because
 * a rank has ended the job, it does not return: an error caused by that reaches no caller. */
nexar_err nx_on_error(nexar_err err);

static inline nexar_err nx_returned(nexar_err err)
{
    return (err == NEXAR_OK) ? err : nx_on_error(err);
}

#endif /* NX_ON_ERROR_H */
