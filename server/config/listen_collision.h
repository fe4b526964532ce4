/* listen_collision.h - addresses of one command line that cannot all be listened on. */
#ifndef ATTND_LISTEN_COLLISION_H
#define ATTND_LISTEN_COLLISION_H

#include "base/fault.h"
#include "config/config.h"

/* False, with a fault, where two of the addresses, as typed, include the same address at the same
 * port, or name the same Unix socket. Port 0 collides with nothing, nor does a text that is no
 * address. What other processes listen on is not checked. */
bool listen_collision_check(const char *const *addresses, int count, struct fault *fault);

/* The same of all addresses of a configuration. */
bool listen_collision_check_config(const struct config *config, struct fault *fault);

#endif
