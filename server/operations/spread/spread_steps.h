/* SPDX-License-Identifier: Apache-2.0 */
/* spread_steps.h - the steps of a call over a session that is spread: what peers are asked, and
 * what their answers mean. */
#ifndef ATTND_SPREAD_STEPS_H
#define ATTND_SPREAD_STEPS_H

#include "operations/spread/spread_call.h"

/* Sets the next step and sends its requests. False, with the fault. */
bool spread_steps_send(struct call *call, struct spread_call *own, struct fault *fault);

/* Takes the answers of the step. *again: a peer was full, and the rows have to go elsewhere. False,
 * with the fault, which names the peer. */
bool spread_steps_take(struct call *call, struct spread_call *own, bool *again,
                       struct fault *fault);

/* Makes of the call's item the merge of what the ranges answered. */
bool spread_steps_merge(struct call *call, struct spread_call *own, struct fault *fault);

/* Cancels what is not answered, and gives back its memory. */
void spread_steps_leave(struct call *call, struct spread_call *own);

#endif
