/*
 * dev_step.h - the steps of a schedule where the caller's spaces are device memory.
 *
 * NX_SPACE_SEND and NX_SPACE_RECV are the device's, NX_SPACE_SCRATCH is host memory.
 * Everything here that works on memory blocks: it is called without the loop's lock,
 * on any thread.  Errors are those of device.h.
 */
#ifndef NX_DEV_STEP_H
#define NX_DEV_STEP_H

#include "coll/run/binding.h"
#include "device/device.h"

/* Where a step runs. */
typedef struct nx_dev_site {
    nx_devmem mem;
    const nx_binding *binding;
    nexar_dtype dtype;
    nexar_op op;
    uint32_t size; /* of the group: what an average divides by */
} nx_dev_site;

/* Copy |len| elements of |area|, |size| bytes each, to |host|, and back. */
NX_MUST_CHECK nexar_err nx_dev_read(nx_devmem mem, const nx_area *area, size_t size, size_t len,
                                    void *host);
NX_MUST_CHECK nexar_err nx_dev_write(nx_devmem mem, const nx_area *area, size_t size, size_t len,
                                     void *host);

/* Whether |step| touches device memory. */
bool nx_dev_step_touches(const nx_step *step);

/* Copies |len| elements, from |off| on, of what the send |step| reads to |host|. */
NX_MUST_CHECK nexar_err nx_dev_step_stage(const nx_dev_site *site, const nx_step *step, size_t off,
                                          void *host, size_t len);

/* Runs one local step (copy, reduce, fill, divide). */
NX_MUST_CHECK nexar_err nx_dev_step_local(const nx_dev_site *site, const nx_step *step);

/* Combines |len| elements at |data|, which arrived at element |off| of a receive or
 * receive-reduce step, into the step's target. */
NX_MUST_CHECK nexar_err nx_dev_step_deliver(const nx_dev_site *site, const nx_step *step,
                                            size_t off, const void *data, size_t len);

#endif /* NX_DEV_STEP_H */
