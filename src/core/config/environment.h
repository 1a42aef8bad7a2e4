/* environment.h - variables of the environment. */
#ifndef NX_ENVIRONMENT_H
#define NX_ENVIRONMENT_H

/* The value of |variable|, valid until the environment changes; NULL if it is not set. */
const char *nx_environment(const char *variable);

#endif /* NX_ENVIRONMENT_H */
