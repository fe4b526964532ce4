/* checkpoint_forward.c - see checkpoint_forward.h.
 *
 * Each run of self attention that has a row becomes a stream; a run of cross attention belongs to
 * the stream whose row names its kind. Whatever is missing is a reason and not a fault: the layers
 * of the model answer without their pass. */
#include "checkpoint/checkpoint_forward.h"

#include "checkpoint/checkpoint_fields.h"
#include "checkpoint/checkpoint_forward_stream.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ tables -- */

static bool is_of_kind(const struct checkpoint_forward_row *row, const char *kind)
{
    return strcmp(row->kind ? row->kind : "self", kind) == 0
           || (row->cross_kind && strcmp(row->cross_kind, kind) == 0);
}

/* The first row of the family that has layers of kind, or of any kind where that is NULL. */
static const struct checkpoint_forward_row *find(const char *model_type, const char *kind)
{
    const struct checkpoint_forward_row *const tables[] = {
        checkpoint_forward_encoders, checkpoint_forward_seq2seq, checkpoint_forward_decoders,
        checkpoint_forward_llamas, checkpoint_forward_images
    };
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        for (const struct checkpoint_forward_row *row = tables[i]; row->model_type; row++)
            if (checkpoint_families_has(row->model_type, model_type)
                && (!kind || is_of_kind(row, kind)))
                return row;
    return NULL;
}

const struct checkpoint_forward_row *checkpoint_forward_find(const char *model_type,
                                                             const char *kind)
{
    return find(model_type, kind);
}

/* ----------------------------------------------------------------- building -- */

struct pass {
    const struct checkpoint *checkpoint;
    const struct model_layer *layers;
    struct model_parameters *parameters;
    struct model_forward *forward;
    const void **addresses; /* malloc'd */
    int64_t address_count, address_capacity;
    struct fault *fault;
};

/* The number of the first layer of this kind; -1: the file has none. */
static int64_t first_layer(const struct checkpoint *checkpoint, const char *kind,
                           const struct checkpoint_run **run)
{
    int64_t before = 0;
    for (int i = 0; i < checkpoint->run_count; i++) {
        *run = &checkpoint->runs[i];
        if (strcmp((*run)->stack->kind, kind) == 0)
            return before;
        before += (*run)->layer_count;
    }
    return -1;
}

/* Finds the layers that attend to the first stream, one for each of run. */
static bool find_cross(const struct pass *pass, const struct checkpoint_forward_row *row,
                       const struct checkpoint_run *run, int64_t *first)
{
    const struct checkpoint_run *cross;
    *first = row->cross_kind ? first_layer(pass->checkpoint, row->cross_kind, &cross) : -1;
    if (!row->cross_kind)
        return true;
    if (*first < 0 || cross->layer_count != run->layer_count)
        return fault_set(pass->fault, FAULT_SHAPE,
                         "the file does not have a layer of kind '%s' for each of kind '%s'",
                         row->cross_kind, run->stack->kind);
    return pass->forward->stream_count == 1
           || fault_set(pass->fault, FAULT_FIELD,
                        "the file has no encoder, whose rows its layers of kind '%s' attend to",
                        row->cross_kind);
}

static bool build_stream(struct pass *pass, const struct checkpoint_run *run, int64_t first,
                         const struct checkpoint_forward_row *row)
{
    struct model_forward *forward = pass->forward;
    struct model_stream *stream = &forward->streams[forward->stream_count];
    struct checkpoint_forward_reader reader = {
        .row = *row,
        .run = run,
        .parameters = pass->parameters,
        .block = -1,
        .expert = -1,
        .fault = pass->fault,
        .addresses = pass->addresses,
        .address_count = pass->address_count,
        .address_capacity = pass->address_capacity,
    };
    int64_t cross_first;
    bool good = (!row->adjust || row->adjust(&reader.row, run->section, pass->fault))
                && find_cross(pass, row, run, &cross_first);
    stream->width = pass->layers[first].d_query;
    good = good && checkpoint_forward_stream_build(stream, &reader, first, cross_first)
           && (!reader.row.start
               || checkpoint_read_integer(run->section, reader.row.start, &forward->start_id,
                                          pass->fault))
           && checkpoint_forward_head_build(&forward->head, &reader, stream,
                                            pass->layers[first].options.causal);
    pass->addresses = reader.addresses;
    pass->address_count = reader.address_count;
    pass->address_capacity = reader.address_capacity;
    if (good && row->cross_kind)
        forward->is_encoder_decoder = true;
    forward->stream_count++;
    return good;
}

static bool build_run(struct pass *pass, const struct checkpoint_run *run, int64_t first)
{
    const char *type = checkpoint_type(pass->checkpoint), *kind = run->stack->kind;
    const struct checkpoint_forward_row *row = find(type, kind);
    if (row && row->refused)
        return fault_set(pass->fault, FAULT_OPTION, "%s", row->refused);
    if (!row && !find(type, NULL))
        return fault_set(pass->fault, FAULT_OPTION,
                         "the whole pass of model_type '%.24s' is not computed here", type);
    if (!row && strcmp(kind, "cross") == 0)
        return fault_set(pass->fault, FAULT_FIELD,
                         "the model has layers that attend to the rows of an encoder, which is not "
                         "part of it");
    if (!row || (row->cross_kind && strcmp(row->cross_kind, kind) == 0))
        return true;
    return build_stream(pass, run, first, row);
}

/* Keeps the addresses in the arena. */
static bool keep_addresses(struct pass *pass)
{
    const size_t bytes = (size_t)pass->address_count * sizeof *pass->addresses;
    const void **kept = arena_alloc(pass->parameters->arena, bytes);
    if (!kept)
        return fault_no_memory(pass->fault);
    if (pass->addresses)
        memcpy(kept, pass->addresses, bytes);
    pass->forward->addresses = kept;
    pass->forward->address_count = (int)pass->address_count;
    return true;
}

static bool build(struct pass *pass)
{
    struct model_forward *forward = pass->forward;
    int64_t first = 0;
    forward->start_id = forward->mask_id = -1;
    for (int i = 0; i < pass->checkpoint->run_count; i++) {
        if (!build_run(pass, &pass->checkpoint->runs[i], first))
            return false;
        first += pass->checkpoint->runs[i].layer_count;
    }
    forward->vocabulary = forward->head.output.out;
    return forward->stream_count > 0 ? keep_addresses(pass)
                                     : fault_set(pass->fault, FAULT_FIELD,
                                                 "the file has none of the layers whose whole "
                                                 "pass is computed here");
}

bool checkpoint_forward_build(const struct model_forward **forward, const char **reason,
                              const struct checkpoint *checkpoint, const struct model_layer *layers,
                              struct model_parameters *parameters, struct fault *fault)
{
    struct fault why = { .code = FAULT_NONE };
    struct pass pass = { .checkpoint = checkpoint,
                         .layers = layers,
                         .parameters = parameters,
                         .forward = arena_calloc(parameters->arena, 1, sizeof *pass.forward),
                         .fault = &why };
    *forward = NULL;
    *reason = NULL;
    if (!pass.forward)
        return fault_no_memory(fault);
    const bool good = build(&pass);
    free(pass.addresses);
    if (good) {
        *forward = pass.forward;
        return true;
    }
    *reason = why.code == FAULT_MEMORY ? NULL : arena_strdup(parameters->arena, why.message);
    return *reason || fault_no_memory(fault);
}
