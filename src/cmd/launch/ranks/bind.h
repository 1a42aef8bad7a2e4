/* bind.h - a core for each rank. */
#ifndef NX_BIND_H
#define NX_BIND_H

#include <sched.h>
#include <stdint.h>

#include "base/error.h"

/* The cores that this process may use, each as the set of its hardware threads. */
typedef struct nx_bind {
    cpu_set_t *cores;
    uint32_t n;
} nx_bind;

/* NEXAR_ESYS: the affinity mask cannot be read; NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_bind_init(nx_bind *b);
void nx_bind_fini(nx_bind *b);

/* The core of process |i|, round-robin: more processes than cores share cores. */
const cpu_set_t *nx_bind_core(const nx_bind *b, uint32_t i);

#endif /* NX_BIND_H */
