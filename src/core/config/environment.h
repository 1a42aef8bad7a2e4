/* environment.h - variables of the environment. */
#ifndef NX_ENVIRONMENT_H
#define NX_ENVIRONMENT_H

/* The value of |variable|, which lives as long as the environment is not changed; NULL if it is
 * not set. */
const char *nx_environment(const char *variable);

#endif /* NX_ENVIRONMENT_H */
