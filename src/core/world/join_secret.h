/*
 * join_secret.h - the join string by which this rank has joined, kept for nexar_join_string: in
 * memory that no core dump has, wiped when the world ends.
 */
#ifndef NX_JOIN_SECRET_H
#define NX_JOIN_SECRET_H

#include "base/error.h"

typedef struct nx_join_secret nx_join_secret;

/* NULL: no memory; the rank can do without. */
nx_join_secret *nx_join_secret_keep(const char *text);
/* Wipes it; NULL is left alone. */
void nx_join_secret_forget(nx_join_secret *s);

#endif /* NX_JOIN_SECRET_H */
