/* SPDX-License-Identifier: Apache-2.0 */
/* listeners.h - the listening sockets of all addresses of the daemon. */
#ifndef ATTND_LISTENERS_H
#define ATTND_LISTENERS_H

#include "host/config.h"
#include "host/service_manager.h"
#include "http/listener.h"

/* Of --listen, of --admin-listen, and of a service manager. */
enum { LISTENERS_MAX = 2 * CONFIG_LIST_MAX * LISTENERS_OF_ONE + PASSED_SOCKETS_MAX };

struct listeners {
    struct listener all[LISTENERS_MAX];
    int count;
};

/* Takes the sockets that a service manager has passed, and opens those of all addresses of a
 * configuration. A passed socket that is called "admin" is the operators'; the others stand for the
 * default address. The caller closes all with listeners_close(), after a failure too. */
bool listeners_open(struct listeners *listeners, const struct config *config, struct fault *fault);
void listeners_close(struct listeners *listeners);

/* Whether a listener is the operators'. */
bool listeners_have_operators(const struct listeners *listeners);

/* Whether all addresses could be opened if no other socket listened there. Leaves nothing open. */
bool listeners_try(const struct config *config, struct fault *fault);

#endif
