/* listen_collision.h - addresses of one command that cannot all be listened on. */
#ifndef ATTND_LISTEN_COLLISION_H
#define ATTND_LISTEN_COLLISION_H

#include "base/fault.h"

/* False where two of the addresses, as typed, include one address at one port; port 0 collides
 * with nothing. What other processes listen on does not count, nor what is no address. */
bool listen_collision_check(const char *const *addresses, int count, struct fault *fault);

#endif
