/* SPDX-License-Identifier: Apache-2.0 */
/* model_report.h - what is served, in lines for a person: the log at the start and after a load,
 * and
 * --check-config. */
#ifndef ATTND_MODEL_REPORT_H
#define ATTND_MODEL_REPORT_H

#include "models/store/model_store.h"

#include <stdio.h>

/* Visitors of model_store_each(). model_report_log() takes any context, model_report_print() a
 * FILE. */
void model_report_log(void *context, const struct model_listing *listing);
void model_report_print(void *context, const struct model_listing *listing);

/* Logs that a model serves without its tokenizer, where its files were refused. */
void model_report_log_tokenizer(const char *name, const struct model *model);

#endif
