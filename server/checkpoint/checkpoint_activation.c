/* checkpoint_activation.c - see checkpoint_activation.h.
 *
 * Source: ACT2FN of transformers' activations.py at 00e12e7c5459. gelu_new, gelu_fast,
 * gelu_pytorch_tanh and gelu_accurate are ways to write one function. */
#include "checkpoint/checkpoint_activation.h"

#include "checkpoint/checkpoint_fields.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    enum attn_activation activation;
} ACTIVATIONS[] = {
    { "gelu", ATTN_GELU },
    { "gelu_python", ATTN_GELU },
    { "gelu_new", ATTN_GELU_TANH },
    { "gelu_fast", ATTN_GELU_TANH },
    { "gelu_accurate", ATTN_GELU_TANH },
    { "gelu_pytorch_tanh", ATTN_GELU_TANH },
    { "gelu_python_tanh", ATTN_GELU_TANH },
    { "quick_gelu", ATTN_GELU_QUICK },
    { "relu", ATTN_RELU },
    { "silu", ATTN_SILU },
    { "swish", ATTN_SILU },
    { "tanh", ATTN_TANH },
    { "linear", ATTN_NO_ACTIVATION },
};

bool checkpoint_activation_read(const cJSON *section, const char *field,
                                enum attn_activation *activation, struct fault *fault)
{
    const char *name;
    if (!checkpoint_read_string(section, field, &name, fault))
        return false;
    for (size_t i = 0; i < sizeof ACTIVATIONS / sizeof ACTIVATIONS[0]; i++)
        if (strcmp(ACTIVATIONS[i].name, name) == 0) {
            *activation = ACTIVATIONS[i].activation;
            return true;
        }
    return fault_set(fault, FAULT_OPTION,
                     "config.json's %.*s is '%.40s', an activation that is "
                     "not computed here",
                     CHECKPOINT_FIELD_NAME(section, field), name);
}
