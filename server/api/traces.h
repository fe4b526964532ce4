/* SPDX-License-Identifier: Apache-2.0 */
/* traces.h - the resource of kept traces (API_TRACE.md): what is kept, pieces of its maps, what its
 * heads do, a rollout of its layers, and pairs of tokens in numbers. */
#ifndef ATTND_TRACES_H
#define ATTND_TRACES_H

#include "http/http.h"

void traces_list(struct exchange *exchange);
void traces_get(struct exchange *exchange);
void traces_renew(struct exchange *exchange);
void traces_delete(struct exchange *exchange);
void traces_weights(struct exchange *exchange);
void traces_statistics(struct exchange *exchange);
void traces_rollout(struct exchange *exchange);
void traces_pair(struct exchange *exchange);
void traces_pairs(struct exchange *exchange);

#endif
