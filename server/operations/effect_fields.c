/* SPDX-License-Identifier: Apache-2.0 */
/* effect_fields.c - every field of a request of effects, once, beside those of a trace's input. */
#include "operations/effect.h"

#include "operations/trace.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define AT(member)      offsetof(struct effect_asked, member)
#define COUNT_OF(array) ((int)(sizeof(array) / sizeof(array)[0]))

/* The members of an object that are in these tables. */
static bool read_members(struct field_reader *reader, const struct value *value,
                         struct field_target target, struct field_target more)
{
    char prefix[FAULT_POINTER_MAX];
    if (value->kind != VALUE_OBJECT)
        return field_wrong_type(reader, value, "an object");
    memcpy(prefix, reader->pointer, sizeof prefix);
    struct field_reader inner = *reader;
    inner.prefix = prefix;
    return fields_read(&inner, &value->inner, target, more);
}

/* ------------------------------------------------------------------- the metric -- */

static const char *const DIVERGENCES[] = { "kl" };

static const struct field METRIC_ROWS[] = {
    { .name = "divergence",
      .kind = FIELD_ENUM,
      .offset = offsetof(struct effect_metric, divergence),
      .has = offsetof(struct effect_metric, has_divergence),
      .names = DIVERGENCES,
      .name_count = COUNT_OF(DIVERGENCES) },
};

static const struct field_table METRIC = { .rows = METRIC_ROWS,
                                           .count = COUNT_OF(METRIC_ROWS),
                                           .policy = FIELDS_LISTED };

static bool read_metric(struct field_reader *reader, const struct value *value, void *into)
{
    struct effect_metric *metric = &((struct effect_asked *)into)->metric;
    return read_members(reader, value, (struct field_target){ &METRIC, metric },
                        (struct field_target){ &trace_target_fields, &metric->target });
}

/* ------------------------------------------------------------------- the variants -- */

struct each_members {
    bool rows_of_layers, has_spans, has_span_texts;
    struct trace_edit *edit;
};

/* As an edit reads a field of its own. */
static bool read_of_edit(struct field_reader *reader, const struct value *value, const char *name,
                         struct trace_edit *edit)
{
    return field_find(&edit_fields, NAMED_AS_FIELDS, name)->own(reader, value, edit);
}

static bool read_spans(struct field_reader *reader, const struct value *value, void *into)
{
    return read_of_edit(reader, value, "hide", ((struct each_members *)into)->edit);
}

static bool read_span_texts(struct field_reader *reader, const struct value *value, void *into)
{
    return read_of_edit(reader, value, "hide_texts", ((struct each_members *)into)->edit);
}

#define AT_EACH(member) offsetof(struct each_members, member)

static const struct field EACH_ROWS[] = {
    { .name = "rows_of_layers", .kind = FIELD_BOOL, .offset = AT_EACH(rows_of_layers) },
    { .name = "spans", .kind = FIELD_OWN, .own = read_spans, .has = AT_EACH(has_spans) },
    { .name = "span_texts",
      .kind = FIELD_OWN,
      .own = read_span_texts,
      .has = AT_EACH(has_span_texts) },
};

static const struct field_table EACH = { .rows = EACH_ROWS,
                                         .count = COUNT_OF(EACH_ROWS),
                                         .policy = FIELDS_LISTED };

static const char *const NAMED_EACH[] = { "heads", "layers", "feed_forwards" };

static bool read_each(struct field_reader *reader, const struct value *value, void *into)
{
    struct effect_asked *asked = into;
    struct each_members members = { .edit = &asked->edit };
    if (value->kind == VALUE_STRING) {
        static const struct field NAMES = { .name = "each",
                                            .kind = FIELD_ENUM,
                                            .names = NAMED_EACH,
                                            .name_count = COUNT_OF(NAMED_EACH) };
        reader->field = &NAMES;
        return field_read_single(reader, value, &asked->each);
    }
    if (value->kind != VALUE_OBJECT)
        return field_wrong_type(reader, value, "a name or an object");
    if (!read_members(reader, value, (struct field_target){ &EACH, &members },
                      (struct field_target){ NULL, NULL }))
        return false;
    if (members.rows_of_layers + members.has_spans + members.has_span_texts != 1)
        return fault_set_at(reader->fault, "/each", FAULT_FIELD,
                            "each has %s; expected exactly one of rows_of_layers, spans and "
                            "span_texts",
                            members.rows_of_layers || members.has_spans || members.has_span_texts
                                ? "several members"
                                : "none of its members");
    asked->each = members.rows_of_layers ? EFFECT_ROWS_OF_LAYERS
                  : members.has_spans    ? EFFECT_SPANS
                                         : EFFECT_SPAN_TEXTS;
    return true;
}

static bool read_layers(struct field_reader *reader, const struct value *value, void *into)
{
    return read_of_edit(reader, value, "layers", &((struct effect_asked *)into)->edit);
}

static bool read_rows(struct field_reader *reader, const struct value *value, void *into)
{
    return read_of_edit(reader, value, "rows", &((struct effect_asked *)into)->edit);
}

static bool read_other(struct field_reader *reader, const struct value *value, void *into)
{
    struct effect_asked *asked = into;
    struct trace_item *other = arena_calloc(reader->arena, 1, sizeof *other);
    if (!other)
        return fault_no_memory(reader->fault);
    other->at = -1;
    asked->other = other;
    return read_members(reader, value, (struct field_target){ &trace_other_fields, other },
                        (struct field_target){ NULL, NULL });
}

/* ------------------------------------------------------------------------ the rows -- */

static const char *const BY[] = { [EFFECT_SCALE] = "scale",
                                  [EFFECT_MEAN] = "mean",
                                  [EFFECT_FROM] = "from",
                                  [EFFECT_HIDE] = "hide",
                                  [EFFECT_LEAVE_OUT] = "leave_out" };

static const struct field ROWS[] = {
    EDITS_ROW(AT(edits), AT(edit_count)),
    { .name = "metric", .kind = FIELD_OWN, .own = read_metric, .has = AT(has_metric) },
    { .name = "each", .kind = FIELD_OWN, .own = read_each, .has = AT(has_each) },
    { .name = "by",
      .kind = FIELD_ENUM,
      .offset = AT(by),
      .has = AT(has_by),
      .names = BY,
      .name_count = COUNT_OF(BY) },
    { .name = "scale", .kind = FIELD_NUMBER, .offset = AT(scale), .has = AT(has_scale) },
    { .name = "other", .kind = FIELD_OWN, .own = read_other, .has = AT(has_other) },
    { .name = "kind", .kind = FIELD_STRING, .offset = AT(edit.kind) },
    { .name = "layers", .kind = FIELD_OWN, .own = read_layers },
    { .name = "rows", .kind = FIELD_OWN, .own = read_rows },
    { .name = "top_k_tokens",
      .kind = FIELD_INTEGER,
      .offset = AT(top_k_tokens),
      .least = 1,
      .code = FAULT_OPTION },
};

/* What fits by itself. */
static bool check_metric(const struct effect_asked *asked, struct fault *fault)
{
    const struct effect_metric *metric = &asked->metric;
    if (!asked->has_metric)
        return fault_set_at(fault, "/metric", FAULT_FIELD, "metric is missing");
    if (metric->has_divergence == metric->target.token.has)
        return fault_set_at(fault, "/metric", FAULT_FIELD,
                            "metric has %s; expected exactly one of token and divergence",
                            metric->has_divergence ? "both token and divergence"
                                                   : "neither token nor divergence");
    if (metric->has_divergence && metric->target.against.has)
        return fault_set_at(fault, "/metric/against", FAULT_OPTION,
                            "against goes with a token, not with a divergence");
    return true;
}

static bool check_by(struct effect_asked *asked, struct fault *fault)
{
    const bool is_span = asked->each >= EFFECT_SPANS;
    if (!asked->has_each)
        return fault_set_at(fault, "/each", FAULT_FIELD, "each is missing");
    if (!asked->has_by)
        asked->by = is_span ? EFFECT_HIDE : EFFECT_SCALE;
    if (is_span != (asked->by >= EFFECT_HIDE))
        return fault_set_at(fault, "/by", FAULT_OPTION, "by is '%s'; of %s it is %s", BY[asked->by],
                            is_span ? "spans" : "heads, layers, feed_forwards and rows_of_layers",
                            is_span ? "hide or leave_out" : "scale, mean or from");
    if (asked->has_scale && asked->by != EFFECT_SCALE)
        return fault_set_at(fault, "/scale", FAULT_OPTION, "scale goes with \"by\": \"scale\"");
    if (asked->has_other && asked->by != EFFECT_FROM)
        return fault_set_at(fault, "/other", FAULT_OPTION, "other goes with \"by\": \"from\"");
    if (!asked->has_other && asked->by == EFFECT_FROM)
        return fault_set_at(fault, "/other", FAULT_FIELD,
                            "other is missing: the input whose rows are taken");
    if (asked->by != EFFECT_LEAVE_OUT || (!asked->edit.layers.has && !asked->edit.rows.has))
        return true;
    return fault_set_at(fault, asked->edit.layers.has ? "/layers" : "/rows", FAULT_OPTION,
                        "a token that is left out is in no layer and no row; leave %s out",
                        asked->edit.layers.has ? "layers" : "rows");
}

bool effect_fields_read(struct call *call, struct effects *job, struct fault *fault)
{
    /* One table, of the input's rows and these. */
    const int input_rows = trace_input_fields.count, count = input_rows + COUNT_OF(ROWS);
    struct field *rows = arena_calloc(&call->arena, (size_t)count, sizeof *rows);
    if (!rows)
        return fault_no_memory(fault);
    memcpy(rows, trace_input_fields.rows, (size_t)input_rows * sizeof *rows);
    memcpy(rows + input_rows, ROWS, sizeof ROWS);
    const struct field_table table = {
        .rows = rows, .count = count, .policy = FIELDS_LISTED, .bytes = sizeof(struct effect_asked)
    };
    job->asked.input.at = -1;
    call->form.nul_is_kept = true;
    if (!operation_read_fields(call, &table, &job->asked, fault))
        return false;
    return check_metric(&job->asked, fault) && check_by(&job->asked, fault);
}
