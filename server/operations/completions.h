/* completions.h - POST /v1/completions. */
#ifndef ATTND_COMPLETIONS_H
#define ATTND_COMPLETIONS_H

#include "http/http.h"

void completions_handle(struct exchange *exchange);

#endif
