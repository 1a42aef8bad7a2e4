/* nontemporal_copy.h - copying past the caches. */
#ifndef NX_NONTEMPORAL_COPY_H
#define NX_NONTEMPORAL_COPY_H

#include <stddef.h>

/* From here on memory is copied faster if what is written does not go through the caches:
 * a line that is written there is read first.  What is shorter may be wanted soon. */
enum { NX_STREAM_MIN = 1 << 20 };

/* Like memcpy, of any length; long stretches by stores that go past the caches.  All of
 * it is visible to others, as by memcpy, once something is published by a release. */
void nx_nontemporal_copy(void *to, const void *from, size_t len);
/* The same for a piece of something that is long. */
void nx_nontemporal_piece(void *to, const void *from, size_t len);

#endif /* NX_NONTEMPORAL_COPY_H */
