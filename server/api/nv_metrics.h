/* SPDX-License-Identifier: Apache-2.0 */
/* nv_metrics.h - the metrics of each model under the names that Triton gives them, for dashboards
 * and autoscalers made for it (--metrics-nv-aliases).
 *
 * https://docs.nvidia.com/deeplearning/triton-inference-server/user-guide/docs/user_guide/metrics.html
 */
#ifndef ATTND_NV_METRICS_H
#define ATTND_NV_METRICS_H

#include "models/store/model_store.h"
#include "json/text.h"

/* Writes the metrics of every model that is served. A model's counts begin anew when it is loaded,
 * as its statistics do. */
void nv_metrics_write(struct text *text, struct model_store *store);

#endif
