/* prefetch_hint.c - the memory that each thread will need soon. */
#include "prefetch_hint.h"

_Thread_local nx_prefetch nx_prefetch_read, nx_prefetch_write;
