/* SPDX-License-Identifier: Apache-2.0 */
/* unix_client.h - clients of a daemon that listens on a Unix socket. */
#ifndef UNIX_CLIENT_H
#define UNIX_CLIENT_H

/* A connected socket, or -1 with errno. name is a path, or "@NAME" for an abstract socket. */
int unix_client_connect(const char *name);

/* Sends all of text; fails the test where the other end takes it not. */
void unix_client_send(int client, const char *text);

/* What comes until the other end closes its side; fails the test where that takes more than 20 s
 * (scaled). The caller frees it. Closes the socket. */
char *unix_client_read(int client);

/* One request on a connection of its own, which it ends ("Connection: close"). body may be NULL. */
char *unix_client_ask(const char *name, const char *method, const char *path, const char *body);

/* The status of an answer, or 0 where it is none. */
int unix_client_status(const char *answer);

#endif
