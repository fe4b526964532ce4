/* SPDX-License-Identifier: Apache-2.0 */
/* twin.h - a second daemon beside the one under test, and whether both answer alike.
 *
 * Where the environment variable ATTND_TEST_TWIN names a program, mostly the daemon of an earlier
 * commit, every daemon that a test starts gets a twin: that program with the same arguments, on a
 * port of its own, over copies of the directories that the arguments name. Every request of
 * http_client_send() then goes to both, one after the other. Answers whose status, Content-Type or
 * body differ are written to the file that ATTND_TEST_TWIN_LOG names, else to stderr; the test goes
 * on with the answer of its own daemon. `make check-twin` is the whole suite under it.
 *
 * Identifiers that a daemon makes at random differ. Where two bodies differ in a run of hexadecimal
 * digits alone, the run counts as such an identifier: the twin gets its own in later requests. */
#ifndef TWIN_H
#define TWIN_H

#include "http_client.h"

/* Starts the twin of a daemon that listens on port. arguments are those of the daemon, its name
 * first. Nothing happens without ATTND_TEST_TWIN. */
void twin_start(int port, char *const *arguments, const char *const *environment);

/* Ends the twin of the daemon that listened on port. */
void twin_stop(int port);

/* Sends the request of this client to the twin of its daemon, too, and compares. Nothing happens
 * where there is none. */
void twin_compare(const struct http_client *client, const struct http_request *request,
                  const struct http_response *response);

#endif
