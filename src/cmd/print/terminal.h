/* terminal.h - what may be written to a descriptor besides plain text. */
#ifndef NX_TERMINAL_H
#define NX_TERMINAL_H

#include <stdbool.h>

/* Whether |fd| is a terminal that the user wants colours on: NO_COLOR is unset or empty, and TERM
 * is not "dumb". Call it before there are threads that change the environment. */
bool nx_terminal_colour(int fd);

#endif /* NX_TERMINAL_H */
