/* trace_texts.c - see trace_texts.h. */
#include "forward/trace_texts.h"

#include <stdio.h>

/* A text of an item, and how it becomes tokens. */
struct source {
    struct byte_slice text, pair; /* pair.data NULL: none */
    bool special;
    const char *pointer;
};

static struct source source_of(const struct trace_item *item, bool of_decoder)
{
    return of_decoder ? (struct source){ .text = item->decoder_text, .pointer = "/decoder_text" }
                      : (struct source){ item->text, item->pair, !item->no_special, "/text" };
}

static bool is_same(struct byte_slice a, struct byte_slice b)
{
    return a.data == b.data && a.size == b.size;
}

/* The tokens of an earlier item that has the same bytes, because they stand beside the requests of
 * the batch; NULL: there is none. */
static const struct token_list *find_encoded(const struct trace_request *request,
                                             const struct trace_item *item, int stream,
                                             const struct source *source, bool of_decoder)
{
    for (const struct trace_item *earlier = request->items; earlier < item; earlier++) {
        const struct source other = source_of(earlier, of_decoder);
        if (earlier->model == item->model && earlier->streams[stream].encoded.tokens
            && is_same(other.text, source->text) && is_same(other.pair, source->pair)
            && other.special == source->special)
            return &earlier->streams[stream].encoded;
    }
    return NULL;
}

bool trace_encode(struct trace_request *request, struct trace_item *item, int stream,
                  bool of_decoder, struct fault *fault)
{
    const struct model *model = item->model;
    const struct source source = source_of(item, of_decoder);
    struct token_list *list = &item->streams[stream].encoded;
    if (!model->tokenizer)
        return fault_set_at(fault, source.pointer, FAULT_FIELD,
                            "model '%s' has no tokenizer%s%s; send tokens", model->name,
                            model->tokenizer_reason ? ": " : "",
                            model->tokenizer_reason ? model->tokenizer_reason : "");
    const struct token_list *encoded = find_encoded(request, item, stream, &source, of_decoder);
    if (encoded) {
        *list = *encoded;
        return true;
    }
    request->tokenized_bytes += source.text.size + source.pair.size;
    if (tokenizer_encode(model->tokenizer, request->stop.is_stopped ? &request->stop : NULL,
                         source.text, source.pair.data ? &source.pair : NULL, source.special,
                         &request->arena, list, fault))
        return true;
    if (fault->code != FAULT_MEMORY && !fault->pointer[0])
        snprintf(fault->pointer, sizeof fault->pointer, "%s", source.pointer);
    return false;
}
