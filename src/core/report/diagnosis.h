/*
 * diagnosis.h - the reports of a world: the ring of operations, stall reports (stall.h), answers to
 * those of other ranks, and the report on a signal.
 *
 * With the loop's lock held.
 */
#ifndef NX_DIAGNOSIS_H
#define NX_DIAGNOSIS_H

#include "core/world/world.h"

/* The world has formed, with its communicator.  NEXAR_ENOMEM, NEXAR_ESYS. */
NX_MUST_CHECK nexar_err nx_diagnosis_start(nx_world *world);
/* The world has another communicator. */
void nx_diagnosis_resize(nx_world *world);
/* Stops reports; does nothing the second time. */
void nx_diagnosis_stop(nx_world *world);

/* A collective has ended (nx_watch); |ctx| is the world. */
void nx_diagnosis_on_end(void *ctx, nx_run *run);
/* A control frame of |peer|.  False: it is not one of these. */
bool nx_diagnosis_on_control(nx_world *world, uint32_t peer, const void *data, size_t len);
void nx_diagnosis_on_down(nx_world *world, uint32_t peer, const char *why);

/* ---- report.c ------------------------------------------------------------------------ */

/* Prints what |world| waits for, has done, and is connected to. */
void nx_report_print(nx_world *world);

#endif /* NX_DIAGNOSIS_H */
