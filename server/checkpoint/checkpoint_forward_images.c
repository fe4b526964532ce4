/* checkpoint_forward_images.c - what stands around the attention of families that take pictures or
 * sound.
 *
 * To add a family, put a row for each of its streams before the last row, as checkpoint_forward.h
 * says. */
#include "checkpoint/checkpoint_forward.h"

const struct checkpoint_forward_row checkpoint_forward_images[] = {
    { .model_type = NULL },
};
