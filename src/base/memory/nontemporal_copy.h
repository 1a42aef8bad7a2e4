/* nontemporal_copy.h - copies with non-temporal stores. */
#ifndef NX_NONTEMPORAL_COPY_H
#define NX_NONTEMPORAL_COPY_H

#include <stddef.h>

/* Length from which non-temporal stores are faster: a cached store first reads the line. Shorter
 * data may be needed soon. */
enum { NX_STREAM_MIN = 1 << 20 };

/* Like memcpy, of any length; long copies use non-temporal stores. Visible to other threads, as
 * with memcpy, after a release. */
void nx_nontemporal_copy(void *to, const void *from, size_t len);
/* The same for a piece of a long copy. */
void nx_nontemporal_piece(void *to, const void *from, size_t len);

#endif /* NX_NONTEMPORAL_COPY_H */
