/* lanes_portable.c - the kernels for any processor. */
#define LANES_PLAIN_F16
#define LANES_KERNELS nx_lanes_portable
#include "coll/compress/lanes.inc.h"
