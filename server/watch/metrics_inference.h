/* metrics_inference.h - inferences, counted by model and route.
 *
 * Models come and go, and clients that may put models choose their names, so the number of places
 * is fixed. A name keeps its place, and its counters go on, until its last model has gone and
 * another name needs the place. Models without a place are counted together as "_other", a name
 * that no model can have. Thread-safe; counting takes no lock. */
#ifndef ATTND_METRICS_INFERENCE_H
#define ATTND_METRICS_INFERENCE_H

#include "text/text.h"
#include "watch/request_record.h"

enum { METRICS_MODELS_MAX = 32, METRICS_ENDPOINTS_MAX = 24 };

/* Takes the place of models of this name and returns it. It is held until it has been dropped as
 * often as it was taken. */
int metrics_model_take(const char *name);
void metrics_model_drop(int place); /* 0 is fine */

/* Counts one inference that came to a worker. Place 0: it named no model, or none that exists.
 * record's route is one of inferences, of which there may be METRICS_ENDPOINTS_MAX. Durations and
 * items count only where the inference was answered well. */
void metrics_inference(int place, const struct request_record *record);

/* Writes all of them, for GET /metrics. */
void metrics_inference_write(struct text *text);

#endif
