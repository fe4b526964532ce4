/* tokenize.h - POST /v1/tokenize and /v1/detokenize: a model's tokenizer on its own
 * (API_CALLS.md). */
#ifndef ATTND_TOKENIZE_H
#define ATTND_TOKENIZE_H

#include "http/http.h"

void tokenize_handle(struct exchange *exchange);
void detokenize_handle(struct exchange *exchange);

#endif
