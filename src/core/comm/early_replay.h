/*
 * early_replay.h - the frames that have come for a communicator before it was made here.
 *
 * They are kept as they came (msg/matching/early_frames.h), and go to the modules that would have
 * taken them if the communicator had been here.  They are old: unlike those that come by a link,
 * they do not count as signs of life of their senders.
 */
#ifndef NX_EARLY_REPLAY_H
#define NX_EARLY_REPLAY_H

#include "core/world/world.h"

/* Communicator |id| has come into being, and is in |world|.  With the loop's lock held. */
void nx_early_opened(nx_world *world, uint32_t id);

#endif /* NX_EARLY_REPLAY_H */
