/* checkpoint_families.c - see checkpoint_families.h. */
#include "checkpoint/checkpoint_families.h"

#include <string.h>

bool checkpoint_families_has(const char *names, const char *model_type)
{
    const size_t wanted = strlen(model_type);
    while (*names) {
        const size_t length = strcspn(names, "|");
        if (length == wanted && strncmp(names, model_type, length) == 0)
            return true;
        names += length + (names[length] == '|');
    }
    return false;
}

const struct checkpoint_stack *checkpoint_families_find(const char *model_type, int *count)
{
    const struct checkpoint_stack *const tables[] = { checkpoint_encoders, checkpoint_decoders,
                                                      checkpoint_llamas };
    *count = 0;
    for (int i = 0; i < 3; i++) {
        const struct checkpoint_stack *stack = tables[i];
        while (stack->model_type && !checkpoint_families_has(stack->model_type, model_type))
            stack++;
        while (stack[*count].model_type
               && checkpoint_families_has(stack[*count].model_type, model_type))
            ++*count;
        if (*count > 0)
            return stack;
    }
    return NULL;
}
