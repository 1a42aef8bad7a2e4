/* ahead.c - what each thread will need soon. */
#include "base/ahead.h"

_Thread_local nx_ahead nx_ahead_read, nx_ahead_write;
