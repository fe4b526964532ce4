/* SPDX-License-Identifier: Apache-2.0 */
/* forward_session.h - traces that go on from a session, against the trace of the whole. */
#ifndef FORWARD_SESSION_H
#define FORWARD_SESSION_H

#include "http_client.h"

#include <cjson/cJSON.h>

#include <stdbool.h>
#include <stdint.h>

/* Sends the tokens to a session of the model in several traces: every number of each must be close
 * to that of whole, the trace of all tokens with the outputs of TRACE_OUTPUTS. The rows that
 * entered the layers, sent to another session layer by layer, must answer the same weights and lse,
 * to the bit. */
void forward_session_expect(struct http_client *client, const char *model, const int *tokens,
                            int64_t count, const cJSON *whole);

/* A trace of the model cannot go on from a session. */
void forward_session_refused(struct http_client *client, const char *model);

#endif
