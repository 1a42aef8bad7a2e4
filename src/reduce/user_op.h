/* user_op.h - reductions that the application has registered (nexar_op_create). */
#ifndef NX_USER_OP_H
#define NX_USER_OP_H

#include "reduce/reduce.h"

/* Whether |op| is registered in this process. A registration is permanent. */
bool nx_user_op_is(nexar_op op);
/* nx_reduce with a registered |op|. */
void nx_user_op_apply(void *out, const void *a, const void *b, size_t count, nexar_dtype dtype,
                      nexar_op op);

#endif /* NX_USER_OP_H */
