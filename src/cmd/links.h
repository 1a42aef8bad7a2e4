/* links.h - `nexar info --links`: what connects the ranks of a world. */
#ifndef NX_LINKS_H
#define NX_LINKS_H

#include <stdbool.h>

/* Joins the world that the environment names, lets every rank talk to every
 * other, and prints on rank 0 a table of all links.  Returns an exit code. */
int nx_links_show(bool json);

#endif /* NX_LINKS_H */
