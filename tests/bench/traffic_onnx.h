/* SPDX-License-Identifier: Apache-2.0 */
/* traffic_onnx.h - an encoder of traffic_checkpoint.h as a graph of ONNX, with the operators that
 * onnxruntime's own optimizer makes of an exported BERT, so that nothing is left for it to fuse. */
#ifndef BENCH_TRAFFIC_ONNX_H
#define BENCH_TRAFFIC_ONNX_H

#include "traffic_checkpoint.h"

/* Writes folder/model.onnx of folder/model.safetensors, in F32: from "ids", int32 [batch][tokens],
 * to "vectors", the means of the last rows, each of length 1, [batch][width]. If that fails, it
 * ends the program. */
void traffic_onnx_encoder(const char *folder, const struct traffic_checkpoint *shape);

/* What libonnxruntime.so at this path says of its version; "not known" where it does not. */
const char *traffic_onnx_version(const char *path);

#endif
