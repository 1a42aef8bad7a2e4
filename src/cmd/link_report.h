/* link_report.h - `nexar info --links`: the links between the ranks of a world. */
#ifndef NX_LINK_REPORT_H
#define NX_LINK_REPORT_H

#include <stdbool.h>

#include <nexar.h>

/* Joins the world that the environment names, exchanges messages between all pairs of ranks, and
 * prints a table of all links on rank 0. Returns an exit code. */
int nx_links_show(bool json);

enum { NX_TRANSPORT_ROOM = 16 };
/* Writes the transport of messages to |peer| to |name|: "quic"; "" if there is no link. */
void nx_links_transport(nexar_comm *world, int peer, char name[NX_TRANSPORT_ROOM]);

#endif /* NX_LINK_REPORT_H */
