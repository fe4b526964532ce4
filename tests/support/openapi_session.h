/* SPDX-License-Identifier: Apache-2.0 */
/* openapi_session.h - PUT of a session's file, which is no text and so in no table of calls, and
 * sessions of several keys, and those that have moved. */
#ifndef OPENAPI_SESSION_H
#define OPENAPI_SESSION_H

#include "http_client.h"

/* Sends the file of that session, whole and in wrong forms; the document must describe each answer.
 */
void openapi_expect_session_file(struct http_client *client, const char *id);

/* Starts a daemon with keys, whose file is written here, of which two have sessions of one id; a
 * third does not say which it means. */
void openapi_expect_session_owners(const char *keys);

/* Starts two daemons; the sessions of one move to the other, and each request about them is told
 * so.
 */
void openapi_expect_sessions_moved(void);

#endif
