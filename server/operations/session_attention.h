/* SPDX-License-Identifier: Apache-2.0 */
/* session_attention.h - attention over sessions as an operation
 * (operations/session/session_call.h). */
#ifndef ATTND_SESSION_ATTENTION_H
#define ATTND_SESSION_ATTENTION_H

#include "operations/attention.h"
#include "operations/session/session_call.h"

/* Sets item and step, whose session is set, by what is asked. */
bool session_attention_settle(const struct session_asked *asked, struct infer_item *item,
                              struct session_step *step, struct fault *fault);

#endif
