/* checkpoint_activation.h - the activations that a published config.json names. */
#ifndef ATTND_CHECKPOINT_ACTIVATION_H
#define ATTND_CHECKPOINT_ACTIVATION_H

#include "model/model_forward.h"
#include "text/json.h"

/* Reads an activation from field, "hidden_act=gelu". The fault names the field and the value. */
bool checkpoint_activation_read(const cJSON *section, const char *field,
                                enum attn_activation *activation, struct fault *fault);

#endif
