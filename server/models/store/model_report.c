/* SPDX-License-Identifier: Apache-2.0 */
/* model_report.c - lines of the log and of --check-config.
 *
 * Reasons may quote what a file has, so control characters are printed as '?'. */
#include "models/store/model_report.h"

#include "models/model/model_describe.h"
#include "models/model/model_forward.h"
#include "models/tokenizer/tokenizer.h"
#include "telemetry/log.h"

#include <inttypes.h>
#include <string.h>

/* -------------------------------------------------------------------- log -- */

void model_report_log_tokenizer(const char *name, const struct model *model)
{
    if (!model->tokenizer && model->tokenizer_reason)
        log_line(LOG_WARNING, "tokenizer refused", LOG_STRING("name", name),
                 LOG_NUMBER("version", model->version),
                 LOG_STRING("reason", model->tokenizer_reason));
}

void model_report_log(void *context, const struct model_listing *listing)
{
    const struct model *model = listing->model;
    (void)context;
    if (!model) {
        log_line(LOG_WARNING, "model unavailable", LOG_STRING("name", listing->name),
                 LOG_STRING("reason", listing->reason));
        return;
    }
    log_line(LOG_INFO, "model", LOG_STRING("name", listing->name),
             LOG_NUMBER("version", listing->version), LOG_STRING("source", model->source),
             LOG_NUMBER("layers", model->layer_count),
             LOG_NUMBER("parameters", model->total_parameter_count),
             LOG_NUMBER("attention_parameters", model->parameter_count));
    model_report_log_tokenizer(listing->name, model);
}

/* ------------------------------------------------------------------ print -- */

static void print_text(FILE *stream, const char *text)
{
    for (; *text; text++)
        putc((unsigned char)*text < 0x20 || *text == 0x7F ? '?' : *text, stream);
}

static bool takes(const struct model *model, const char *input)
{
    const char *names[MODEL_INPUTS_MAX];
    for (int i = model_inputs(model, names); i-- > 0;)
        if (strcmp(names[i], input) == 0)
            return true;
    return false;
}

static void print_tokenizer(FILE *stream, const struct model *model)
{
    fprintf(stream, "    tokenizer: ");
    if (model->tokenizer)
        fprintf(stream, "%s, ids to %" PRId64 ", of %s", tokenizer_kind(model->tokenizer),
                tokenizer_id_end(model->tokenizer) - 1, tokenizer_file(model->tokenizer));
    else if (model->tokenizer_reason)
        fprintf(stream, "refused: ");
    else
        fprintf(stream, "%s",
                !takes(model, "tokens")              ? "none"
                : strcmp(model->format, "gguf") == 0 ? "none: the file's metadata has none"
                                                     : "none: there is no tokenizer.json, nor "
                                                       "files of another form");
    print_text(stream, model->tokenizer || !model->tokenizer_reason ? "" : model->tokenizer_reason);
    fprintf(stream, "\n");
}

static void print_trace(FILE *stream, const struct model *model)
{
    const char *names[MODEL_INPUTS_MAX];
    const int count = model_inputs(model, names);
    fprintf(stream, "    trace: %s", model->forward ? "takes " : "none: ");
    for (int i = 0; i < count; i++)
        fprintf(stream, "%s, ",
                strcmp(names[i], "pixels") == 0     ? "pixels of a picture"
                : strcmp(names[i], "features") == 0 ? "features"
                : strcmp(names[i], "decoder") == 0  ? "tokens of the decoder"
                                                    : names[i]);
    print_text(stream, model->forward ? "embeddings" : model->forward_reason);
    fprintf(stream, "\n");
}

static void print_refused(FILE *stream, const char *what, const char *reason)
{
    fprintf(stream, "    %s: refused: ", what);
    print_text(stream, reason);
    fprintf(stream, "\n");
}

/* How it makes vectors, where it says so, and what classes it tells. */
static void print_heads(FILE *stream, const struct model *model)
{
    const struct model_forward *forward = model->forward;
    const struct model_vectors *vectors = model->vectors;
    const char *reason = vectors && vectors->reason ? vectors->reason : NULL, *ignored;
    const struct model_readout *readout =
        forward && !reason ? model_find_readout(model, 0, &ignored) : NULL;
    if (!forward)
        return;
    if (!reason && !readout)
        reason = forward->pooler_reason;
    if (readout)
        fprintf(stream, "    vectors: %" PRId64 " numbers, as %s says\n", readout->width,
                vectors && readout == &vectors->readout ? vectors->source : "the checkpoint");
    else if (reason)
        print_refused(stream, "vectors", reason);
    if (forward->classes.count > 0)
        fprintf(stream, "    classes: %" PRId64 ", of %s\n", forward->classes.count,
                forward->classes.is_of_rows ? "each token" : "a text");
    else if (forward->classes_reason)
        print_refused(stream, "classes", forward->classes_reason);
}

void model_report_print(void *context, const struct model_listing *listing)
{
    FILE *stream = context;
    const struct model *model = listing->model;
    print_text(stream, listing->name);
    if (listing->version != 1)
        fprintf(stream, ", version %" PRId64, listing->version);
    if (!model) {
        fprintf(stream, ": UNAVAILABLE: ");
        print_text(stream, listing->reason);
        fprintf(stream, "\n");
        return;
    }
    fprintf(stream, ": %s, %" PRId64 " %s, %" PRId64 " parameters, %" PRId64 " of attention, ",
            model->family ? model->family : model->attention, model->layer_count,
            model->layer_count == 1 ? "layer" : "layers", model->total_parameter_count,
            model->parameter_count);
    if (*model->dtype)
        fprintf(stream, "%s, ", model->dtype);
    print_text(stream, model->source);
    fprintf(stream, "\n");
    if (model->built_in)
        return;
    print_tokenizer(stream, model);
    print_trace(stream, model);
    print_heads(stream, model);
}
