/* infer_wire_v1.h - the wires of the native API. */
#ifndef ATTND_INFER_WIRE_V1_H
#define ATTND_INFER_WIRE_V1_H

#include "infer/infer_wire.h"

extern const struct infer_wire infer_wire_v1_single, infer_wire_v1_batch, infer_wire_v1_merge,
    infer_wire_v1_gradients;

#endif
