/* access_check.h - refusals of keys, in the words that the client reads. */
#ifndef ATTND_ACCESS_CHECK_H
#define ATTND_ACCESS_CHECK_H

#include "access/access_key.h"
#include "base/fault.h"

/* Whether a key holds the scope. False with the fault `scope`, which names it. */
bool access_check_scope(const struct access_key *key, enum access_scope scope, struct fault *fault);

/* Whether a key may see and call the models of that name. False with the fault `scope`, which is
 * the same whether there is such a model or not. */
bool access_check_model(const struct access_key *key, const char *model, struct fault *fault);

#endif
