/*
 * on_error.h - what happens when a public call is about to return an error.
 *
 * Every public call that returns nexar_err passes through nx_returned().  No call names it: the
 * build generates the public functions from nexar.h (cmake/public_calls.awk), and inside the
 * library nexar_send(), for example, is nx_api_send().  So a new call in nexar.h obeys the setting
 * "on_error" automatically, and calls inside the library never do.
 *
 * The setting applies to the process: that of the world that began last.
 */
#ifndef NX_ON_ERROR_H
#define NX_ON_ERROR_H

#include <nexar.h>
#include <stdbool.h>

/* The exit code of a job that an error has ended. */
enum { NX_ON_ERROR_CODE = 1 };

/* Whether errors end the job from now on. */
void nx_on_error_set(bool abort);
/* |world| was made: an error ends it.  |world| is about to end: an error no longer does. */
void nx_on_error_open(nexar_comm *world);
void nx_on_error_close(const nexar_comm *world);

/* Returns |err|, unless it ends the job; not with a lock held.  Does not return once this process
 * is about to exit because a rank has ended the job: an error caused by that reaches no caller. */
nexar_err nx_on_error(nexar_err err);

static inline nexar_err nx_returned(nexar_err err)
{
    return (err == NEXAR_OK) ? err : nx_on_error(err);
}

#endif /* NX_ON_ERROR_H */
