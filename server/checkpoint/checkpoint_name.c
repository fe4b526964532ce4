/* checkpoint_name.c - see checkpoint_name.h. */
#include "checkpoint/checkpoint_name.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void checkpoint_name_write_in(char name[CHECKPOINT_NAME_BYTES], const struct checkpoint_run *run,
                              const char *layer, int64_t index, const char *part,
                              const char *ending)
{
    const struct checkpoint_stack *stack = run->stack;
    const int64_t outer = index / run->inner_count;
    const int64_t number = stack->number ? stack->number(run->section, outer) : outer;
    const int before = (int)strcspn(layer, "%");
    const char *rest = layer + before + 1;
    const int between = (int)strcspn(rest, "%");
    if (rest[between])
        snprintf(name, CHECKPOINT_NAME_BYTES, "%s%.*s%" PRId64 "%.*s%" PRId64 "%s%s%s", run->prefix,
                 before, layer, number, between, rest, index % run->inner_count, rest + between + 1,
                 part, ending);
    else
        snprintf(name, CHECKPOINT_NAME_BYTES, "%s%.*s%" PRId64 "%s%s%s", run->prefix, before, layer,
                 number, rest, part, ending);
}

void checkpoint_name_write(char name[CHECKPOINT_NAME_BYTES], const struct checkpoint_run *run,
                           int64_t index, const char *part, const char *ending)
{
    checkpoint_name_write_in(name, run, run->stack->layer, index, part, ending);
}

bool checkpoint_name_has_layer(const struct checkpoint_run *run,
                               const struct model_tensors *tensors, int64_t index)
{
    char name[CHECKPOINT_NAME_BYTES];
    checkpoint_name_write(name, run, index, run->stack->projections[MODEL_Q], ".weight");
    return model_tensors_find(tensors, name) != NULL;
}

bool checkpoint_name_find_prefix(struct checkpoint_run *run, const struct model_tensors *tensors)
{
    const char *prefixes = run->stack->prefixes;
    for (;;) {
        const size_t length = strcspn(prefixes, "|");
        snprintf(run->prefix, sizeof run->prefix, "%.*s", (int)length, prefixes);
        if (checkpoint_name_has_layer(run, tensors, 0))
            return true;
        if (!prefixes[length])
            return false;
        prefixes += length + 1;
    }
}
