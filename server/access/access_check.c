/* access_check.c - see access_check.h. */
#include "access/access_check.h"

bool access_check_scope(const struct access_key *key, enum access_scope scope, struct fault *fault)
{
    if (access_key_may(key, scope))
        return true;
    return fault_set(fault, FAULT_SCOPE,
                     "this key has no scope '%s'; send a key that has it, or that has 'admin'",
                     access_scope_name(scope));
}

bool access_check_model(const struct access_key *key, const char *model, struct fault *fault)
{
    if (access_key_may_infer(key, model))
        return true;
    return fault_set(fault, FAULT_SCOPE,
                     "this key has no scope 'infer:%.128s'; send a key that has it, or that has "
                     "'infer' without models",
                     model);
}
