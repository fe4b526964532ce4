/* SPDX-License-Identifier: Apache-2.0 */
/* spread_attention.h - attention over a session that is spread over peers, as an operation
 * (operations/spread/spread_call.h). */
#ifndef ATTND_SPREAD_ATTENTION_H
#define ATTND_SPREAD_ATTENTION_H

#include "call/operation.h"

struct session;

/* The operation of POST /v1/sessions/{session}/attention becomes this one. Takes the session. */
bool spread_attention_begin(struct call *call, struct session *session,
                            const struct exchange *exchange, struct fault *fault);

#endif
