/* listener_unix.h - listening Unix sockets. */
#ifndef ATTND_LISTENER_UNIX_H
#define ATTND_LISTENER_UNIX_H

#include "http/listener.h"

/* Makes a socket that listens at name, a path or "@NAME" (unix_address.h). A socket on which nobody
 * listens is replaced. False, with a fault and nothing open, where somebody listens, where the path
 * is a file of another kind, or where the file cannot be given its owner. */
bool listener_unix_open(struct listener *listener, const char *name,
                        const struct listener_options *options, struct fault *fault);

/* Whether the socket could be made if nobody listened there. Changes nothing. */
bool listener_unix_try(const char *name, const struct listener_options *options,
                       struct fault *fault);

/* Refuses all clients that connect from now on. The connections that clients have made stay in the
 * queue of the socket. */
void listener_unix_begin_none(const struct listener *listener);

/* Removes the file of the socket, if it is still the one that was made, and closes its folder. */
void listener_unix_remove(struct listener *listener);

#endif
