/* SPDX-License-Identifier: Apache-2.0 */
/* traffic_kinds.c - see traffic_kinds.h. The rows below are the requests; VARIANTS of each are
 * made, with other numbers. */
#include "traffic_kinds.h"

#include "daemon.h"
#include "fill.h"
#include "key_file.h"
#include "npy_bytes.h"
#include "word_model.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VARIANTS = 3 };

/* How the numbers of a request travel. */
enum format {
    JSON_TEXT,      /* @2x3 in the body are 2 rows of 3 numbers */
    SAFETENSORS,    /* the body is __metadata__, tensors are behind it */
    PROTOCOL_BYTES, /* of the Open Inference Protocol; the body is its members but inputs */
    RAW_BYTES,      /* the tensors' bytes alone, of the same protocol */
    NPY,            /* one array of (2, 3) */
};

/* The ids of a caller's own session and of the one that all callers with its key ask. kinds_make()
 * and kinds_name_first() know where the numbers stand in them. */
#define OWN    "own-00"
#define COMMON "common-00"

#define A         "/v1/attention"
#define S         "/v1/sessions/" OWN
#define C         "/v1/sessions/" COMMON
#define T         "/v1/trace"
#define P         "/v2/models/"
#define ALL       "\"outputs\":[\"context\",\"weights\",\"scores\",\"softcapped\",\"masked\",\"lse\"]"
#define STORY     "\"model\":\"stories260K\","
#define PROMPT    STORY "\"tokens\":[1,403,407,261,378,400,296,5,402,280,263,271]"
#define SEQUENCE  "\"parameters\":{\"sequence_id\":\"" OWN "\""
#define ONE_SHAPE ",\"shape\":[1,1,1,2],\"datatype\":\"FP32\",\"data\":"
#define STEP(data)                                                                                 \
    "\"inputs\":[{\"name\":\"Q\"" ONE_SHAPE data "},{\"name\":\"K\"" ONE_SHAPE data                \
    "},{\"name\":\"V\"" ONE_SHAPE data "}]}"
#define AS_FILE  "Accept: application/x-safetensors\r\n"
#define AS_ARRAY "Accept: application/x-npy\r\n"
#define PACKED   "Accept-Encoding: gzip\r\n"
#define GOES_ON  .goes_on = true

static const struct kind {
    const char *path, *body;
    enum format format;
    const char *tensors; /* "query F32 7x16, key F32 9x16" */
    const char *headers; /* further ones; NULL: none */
    const char *method;  /* NULL: POST */
    bool goes_on, is_first, fails;
} KINDS[] = {
    /* Attention without parameters. */
    { .path = A, "{\"model\":\"sdpa\",\"query\":@7x16}" },
    { .path = A,
      "{\"model\":\"sdpa\",\"query\":@5x24,\"key\":@33x24,\"value\":@33x24,\"q_heads\":3," ALL
      "}" },
    { .path = A,
      "{\"model\":\"sdpa\",\"query\":@64x32,\"causal\":true,\"outputs\":[\"context\",\"lse\"]}" },
    { .path = A,
      "{\"model\":\"sdpa\",\"query\":@9x16,\"mask\":@9x9,\"softcap\":3,\"window_left\":4}" },
    { .path = A, "{\"model\":\"sdpa\",\"query\":@8x8,\"normalizer\":\"sparsemax\",\"kv_len\":5}" },
    { .path = A, "{\"model\":\"sdpa\",\"query\":@8x8,\"dropout\":0.25,\"seed\":7}" },
    { .path = A,
      "{\"model\":\"sdpa\",\"query\":@17x16,\"q_heads\":2,\"alibi_slopes\":@2,\"sinks\":@2}" },
    { .path = A, "{\"model\":\"sdpa\",\"query\":@40x16,\"precision\":\"high\"}" },
    { .path = A,
      "{\"model\":\"sdpa\",\"query\":@40x16,\"precision\":\"medium\",\"outputs\":[\"context\"]}" },
    { .path = A, "{\"model\":\"sdpa\",\"query\":@6x8,\"partial\":true}" },
    { .path = A,
      "{\"model\":\"sdpa\",\"query\":@48x16,\"q_heads\":2,\"outputs\":[\"weights\"],"
      "\"weight_map\":{\"heads\":\"mean\",\"pool\":[6,6],\"top_k\":3}}" },
    { .path = A,
      "{\"model\":\"sdpa\",\"query\":@48x16,\"weight_map\":{\"rows\":[3,40],\"top_k\":4}}" },
    { .path = A,
      "{\"model\":\"sdpa\",\"query\":@96x64,\"outputs\":[\"weights\"]}",
      .headers = PACKED },
    { .path = A, "{\"model\":\"sdpa\",\"query\":@7x16}", .headers = AS_FILE },
    { .path = A,
      "{\"model\":\"sdpa\",\"query\":@7x16,\"outputs\":[\"context\"]}",
      .headers = AS_ARRAY },
    { .path = A,
      "{\"model\":\"sdpa\",\"outputs\":\"[\\\"context\\\",\\\"lse\\\"]\"}",
      SAFETENSORS,
      "query F32 31x32, key F32 65x32, value F32 65x32" },
    { .path = A, "{\"model\":\"sdpa\"}", SAFETENSORS, "query F16 2x9x16, key F16 2x12x16" },
    { .path = A, "{\"model\":\"sdpa\",\"causal\":\"true\"}", SAFETENSORS, "query BF16 40x16" },
    { .path = A "?model=demo&outputs=context", "", NPY, "array F32 2x3" },
    { .path = P "sdpa/infer",
      "\"parameters\":{\"is_causal\":true,\"binary_data_output\":true}",
      PROTOCOL_BYTES,
      "Q FP32 1x4x96x32, K FP32 1x4x96x32, V FP32 1x4x96x32" },
    { .path = P "sdpa/infer",
      "\"parameters\":{\"binary_data_output\":true}",
      PROTOCOL_BYTES,
      "Q FP32 2x8x16x64, K FP32 2x2x130x64, V FP32 2x2x130x64" },
    { .path = P "sdpa/infer",
      "\"outputs\":[{\"name\":\"Y\"},{\"name\":\"qk_matmul_output\"}]",
      PROTOCOL_BYTES,
      "Q BF16 1x2x5x16, K BF16 1x2x7x16, V BF16 1x2x7x16" },

    /* Layers with parameters, whose products several requests share. */
    { .path = A, "{\"model\":\"demo\",\"query\":@4x3," ALL "}" },
    { .path = A, "{\"model\":\"layer\",\"query\":@1x64,\"outputs\":[\"context\"]}" },
    { .path = A, "{\"model\":\"layer\",\"query\":@3x64,\"outputs\":[\"context\"]}" },
    { .path = A, "{\"model\":\"layer\",\"query\":@20x64," ALL "}" },
    { .path = A, "{\"model\":\"layer\",\"query\":@2x64,\"key\":@11x64,\"precision\":\"medium\"}" },
    { .path = A, "{\"model\":\"wide\",\"query\":@1x256,\"outputs\":[\"context\"]}" },
    { .path = A, "{\"model\":\"added\",\"query\":@6x32,\"key\":@9x32}" },
    { .path = A, "{\"model\":\"layer\"}", SAFETENSORS, "query BF16 5x64" },
    { .path = P "layer/infer", "", RAW_BYTES, "query FP32 1x64" },
    { .path = P "wide/infer", "", RAW_BYTES, "query FP32 1x256" },
    { .path = P "wide/infer",
      "\"parameters\":{\"binary_data_output\":true}",
      PROTOCOL_BYTES,
      "query FP32 2x3x256" },
    { .path = P "layer/infer",
      "{\"inputs\":[{\"name\":\"query\",\"shape\":[1,2,64],\"datatype\":"
      "\"FP32\",\"data\":[@2x64]}],\"outputs\":[{\"name\":\"weights\","
      "\"parameters\":{\"classification\":1}},{\"name\":\"context\"}]}" },

    /* Many calls, parts, gradients, softmax. */
    { .path = A "/batch",
      "{\"model\":\"sdpa\",\"outputs\":[\"context\"],\"requests\":[{\"query\":@7x16},"
      "{\"query\":@1x16,\"key\":@64x16},{\"query\":[[1],[2,3]]},{\"query\":@30x8}]}" },
    { .path = A "/batch",
      "{\"model\":\"layer\",\"requests\":[{\"query\":@1x64},{\"query\":@5x64},"
      "{\"model\":\"demo\",\"query\":@4x3},{\"query\":@2x64,\"causal\":true}]}" },
    { .path = A "/merge",
      "{\"model\":\"sdpa\",\"parts\":[{\"context\":[@3x8],\"lse\":@1x3},{\"context\":"
      "[@3x8],\"lse\":@1x3}]}" },
    { .path = A "/gradients", "{\"model\":\"sdpa\",\"query\":@9x16,\"context_gradient\":@9x16}" },
    { .path = A "/gradients",
      "{\"model\":\"layer\",\"query\":@3x64,\"context_gradient\":@3x64}",
      .headers = AS_FILE },
    { .path = "/v1/softmax", "{\"input\":@12x33,\"axis\":0}" },

    /* Whole passes of small checkpoints, and what is made of them. */
    { .path = T, "{" PROMPT "}" },
    { .path = T,
      "{" PROMPT ",\"layers\":[1],\"weight_map\":{\"heads\":\"mean\"},\"outputs\":[\"weights\","
      "\"lse\",\"hidden_states\"]}" },
    { .path = T, "{" PROMPT ",\"layers\":[],\"outputs\":[\"predictions\"],\"top_k_tokens\":5}" },
    { .path = T, "{" STORY "\"text\":\"One day, a girl\",\"layers\":[4]}", .headers = AS_FILE },
    { .path = T,
      "{" PROMPT ",\"layers\":[2],\"edits\":[{\"layers\":[1],\"at\":\"head\","
      "\"heads\":[2],\"weights\":\"uniform\"}]}" },
    { .path = T "/batch",
      "{\"model\":\"words\",\"layers\":[0],\"requests\":[{\"text\":\"the cat\"},"
      "{\"text\":\"the cat sat on the mat.\"},{\"tokens\":[99]}]}" },
    { .path = "/v1/effects",
      "{" STORY "\"text\":\"One day, a girl saw a\",\"metric\":{\"token\":\"▁c\"},"
      "\"each\":{\"span_texts\":[\"One day\",\"saw a\"]}}" },
    { .path = "/v1/completions",
      "{" STORY "\"prompt\":\"Once upon\",\"max_tokens\":4,\"logprobs\":2}" },
    { .path = "/v1/completions",
      "{" STORY "\"prompt\":[\"One day\",\"a\"],\"max_tokens\":3,"
      "\"temperature\":1,\"seed\":5}" },
    { .path = "/v1/tokenize", "{" STORY "\"text\":\"One day, a girl named Sue\"}" },
    { .path = "/v1/embeddings",
      "{" STORY "\"input\":[\"One day\",\"a cake\"],\"pooling\":\"mean\"}" },
    { .path = "/v1/embeddings",
      "{\"model\":\"words\",\"input\":\"the cat\",\"pooling\":\"last\","
      "\"encoding_format\":\"base64\"}" },
    { .path = "/embed",
      "{\"inputs\":[\"the cat\",\"the mat\"],\"model\":\"words\",\"pooling\":\"max\"}" },
    { .path = "/embed_all", "{\"inputs\":[\"the cat sat\"],\"model\":\"words\"}" },
    { .path = "/similarity",
      "{\"inputs\":{\"source_sentence\":\"the cat\",\"sentences\":[\"the mat\","
      "\"the cat\"]},\"model\":\"words\",\"pooling\":\"mean\"}" },
    { .path = "/predict", "{\"inputs\":[[\"the cat sat\"],[\"on\"]],\"model\":\"judge\"}" },
    { .path = "/rerank",
      "{\"query\":\"the cat\",\"texts\":[\"sat\",\"on the mat\",\"the cat\"],"
      "\"model\":\"judge\"}" },

    /* Faults and descriptions. */
    { .path = A, "{\"model\":\"demo\",\"query\":@2x2}", .fails = true },
    { .path = A, "{\"model\":\"sdpa\",\"query\":[[1,2],[3]]}", .fails = true },
    { .path = T, "{" PROMPT ",\"layers\":[9]}", .fails = true },
    { .path = "/v1/models/stories260K", NULL, .method = "GET" },

    /* A session that all callers with a key ask, and that none of them changes. */
    { .path = "/v1/sessions",
      "{\"model\":\"sdpa\",\"id\":\"" COMMON "\",\"ttl\":\"1h\"}",
      .is_first = true },
    { .path = C "/attention",
      "{\"key\":@300x16,\"value\":@300x16,\"q_heads\":1}",
      .is_first = true },
    { .path = C "/attention", "{\"query\":@1x16}" },
    { .path = C "/attention", "{\"query\":@4x16,\"outputs\":[\"context\",\"lse\"]}" },
    { .path = C "/attention", "{\"query\":@1x16,\"key\":@1x16,\"value\":@1x16,\"append\":false}" },
    { .path = C "/attention",
      "{\"query\":@1x16,\"outputs\":[\"context\"],\"select\":{\"epsilon\":0.01}}" },
    { .path = "/v1/sessions/attention",
      "{\"outputs\":[\"context\"],\"requests\":[{\"session\":\"" COMMON
      "\",\"query\":@1x16},{\"session\":\"" COMMON
      "\",\"query\":@2x16},{\"session\":\"nobody\"}]}" },

    /* Sessions of a caller's own, from the beginning to the end. */
    { .path = "/v1/sessions", "{\"model\":\"sdpa\",\"id\":\"" OWN "\"}" },
    { .path = S "/attention",
      "{\"query\":@5x8,\"key\":@5x8,\"value\":@5x8,\"causal\":true}",
      GOES_ON },
    { .path = S "/attention", "{\"query\":@1x8,\"key\":@1x8,\"value\":@1x8,\"at\":5}", GOES_ON },
    { .path = S "/attention", "{\"steps\":[{\"query\":@2x8,\"outputs\":[\"lse\"]}]}", GOES_ON },
    { .path = S "/truncate", "{\"kv_len\":3}", GOES_ON },
    { .path = S "/attention", "{\"query\":@2x8}", GOES_ON },
    { .path = S, NULL, .method = "DELETE", GOES_ON },

    { .path = "/v1/sessions", "{\"model\":\"layer\",\"id\":\"" OWN "\",\"dtype\":\"int8\"}" },
    { .path = S "/attention", "{\"input\":@9x64,\"outputs\":[\"context\"]}", GOES_ON },
    { .path = S "/attention", "{\"input\":@1x64,\"outputs\":[\"context\"]}", GOES_ON },
    { .path = S "/attention",
      "{\"layer\":\"0\",\"outputs\":\"[\\\"context\\\"]\"}",
      SAFETENSORS,
      "input F32 1x64",
      GOES_ON },
    { .path = S, NULL, .method = "GET", GOES_ON },
    { .path = S, NULL, .method = "DELETE", GOES_ON },

    { .path = "/v1/sessions", "{" STORY "\"id\":\"" OWN "\"}" },
    { .path = S "/trace",
      "{\"text\":\"One day\",\"layers\":[],\"outputs\":[\"predictions\"]}",
      GOES_ON },
    { .path = S "/trace", "{\"tokens\":[432],\"at\":3,\"layers\":[4]}", GOES_ON },
    { .path = S "/attention",
      "{\"append\":false,\"outputs\":[\"context\"],\"steps\":[{\"layer\":0,\"input\":@1x64},"
      "{\"layer\":3,\"input\":@2x64}]}",
      GOES_ON },
    { .path = S, NULL, .method = "DELETE", GOES_ON },

    { .path = P "sdpa/infer", "{" SEQUENCE ",\"sequence_start\":true}," STEP("[@2]") },
    { .path = P "sdpa/infer", "{" SEQUENCE "}," STEP("[@2]"), GOES_ON },
    { .path = P "sdpa/infer", "{" SEQUENCE ",\"sequence_end\":true}," STEP("[@2]"), GOES_ON },
};
enum { KIND_COUNT = sizeof KINDS / sizeof KINDS[0] };

static const char *const KEYS[KIND_KEYS] = { "ann", "ben", "cyd" };

static const struct datatype {
    const char *name; /* of safetensors, and of the protocol behind the FP */
    int bytes;
} DATATYPES[] = { { "F32", 4 }, { "FP32", 4 }, { "F16", 2 }, { "BF16", 2 } };

/* ------------------------------------------------------------------- bodies -- */

/* A shape such as 2x3 at the beginning of a text, which is passed by. */
struct shape {
    int64_t sizes[8], count; /* of numbers */
    int rank;
};

static struct shape read_shape(const char **text)
{
    struct shape shape = { .count = 1 };
    do {
        char *end;
        shape.sizes[shape.rank] = strtoll(*text + (shape.rank > 0), &end, 10);
        shape.count *= shape.sizes[shape.rank++];
        *text = end;
    } while (**text == 'x' && shape.rank < 8);
    return shape;
}

static void write_shape(FILE *stream, const struct shape *shape)
{
    for (int i = 0; i < shape->rank; i++)
        fprintf(stream, "%c%lld", i ? ',' : '[', (long long)shape->sizes[i]);
    fputc(']', stream);
}

static void write_rows(FILE *stream, const struct shape *shape, struct fill *fill)
{
    const int64_t columns = shape->sizes[shape->rank - 1];
    if (shape->rank > 1)
        fputc('[', stream);
    for (int64_t i = 0; i < shape->count; i++) {
        const bool begins = i % columns == 0, ends = (i + 1) % columns == 0;
        fprintf(stream, "%s%.9g%s", begins ? (i ? ",[" : "[") : ",",
                (double)fill_float(fill, -1, 1), ends ? "]" : "");
    }
    if (shape->rank > 1)
        fputc(']', stream);
}

static void write_json(FILE *stream, const char *body, struct fill *fill)
{
    while (*body)
        if (*body == '@') {
            body++;
            const struct shape shape = read_shape(&body);
            write_rows(stream, &shape, fill);
        } else {
            fputc(*body++, stream);
        }
}

/* A number in one of the datatypes. Those of F16 lie between 0.25 and 0.5, or their negatives. */
static void write_number(FILE *stream, const struct datatype *type, struct fill *fill)
{
    const float number = fill_float(fill, -1, 1);
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    if (strcmp(type->name, "BF16") == 0)
        bits >>= 16;
    else if (type->bytes == 2)
        bits = 0x3400 | (bits & 0x3ff) | (bits >> 16 & 0x8000);
    fwrite(&bits, (size_t)type->bytes, 1, stream);
}

/* The next of a kind's tensors. */
struct tensor {
    char name[32];
    const struct datatype *type;
    struct shape shape;
};

static bool next_tensor(const char **text, struct tensor *tensor)
{
    char type[8];
    int used = 0;
    *text += strspn(*text, ", ");
    if (sscanf(*text, "%31s %7s %n", tensor->name, type, &used) != 2)
        return false;
    *text += used;
    for (size_t i = 0; i < sizeof DATATYPES / sizeof DATATYPES[0]; i++)
        if (strcmp(DATATYPES[i].name, type) == 0)
            tensor->type = &DATATYPES[i];
    tensor->shape = read_shape(text);
    return true;
}

static void write_data(FILE *stream, const char *tensors, struct fill *fill)
{
    struct tensor tensor = { .name = "" };
    while (next_tensor(&tensors, &tensor))
        for (int64_t i = 0; i < tensor.shape.count; i++)
            write_number(stream, tensor.type, fill);
}

/* The JSON before the tensors of a file or of a request by the protocol, as malloc'd text. */
static char *head_of(const struct kind *kind)
{
    char *head = NULL;
    size_t size, at = 0;
    const char *tensors = kind->tensors;
    struct tensor tensor = { .name = "" };
    FILE *stream = open_memstream(&head, &size);
    const bool is_file = kind->format == SAFETENSORS;
    fprintf(stream, is_file ? "{\"__metadata__\":%s" : "{%s,\"inputs\":[", kind->body);
    while (next_tensor(&tensors, &tensor)) {
        const size_t bytes = (size_t)(tensor.shape.count * tensor.type->bytes);
        fprintf(stream,
                is_file ? ",\"%s\":{\"dtype\":\"%s\",\"shape\":"
                        : "%s{\"name\":\"%s\",\"datatype\":\"%s\",\"shape\":",
                is_file ? tensor.name
                : at    ? ","
                        : "",
                is_file ? tensor.type->name : tensor.name, tensor.type->name);
        write_shape(stream, &tensor.shape);
        if (is_file)
            fprintf(stream, ",\"data_offsets\":[%zu,%zu]}", at, at + bytes);
        else
            fprintf(stream, ",\"parameters\":{\"binary_data_size\":%zu}}", bytes);
        at += bytes;
    }
    fputs(is_file ? "}" : "]}", stream);
    fclose(stream);
    return head;
}

/* Writes the body, and the lines of the head that say what it is. */
static void write_body(FILE *stream, const struct kind *kind, struct fill *fill, char *lines,
                       size_t lines_size)
{
    const char *type = "application/json";
    char more[64] = "";
    if (kind->format == SAFETENSORS || kind->format == PROTOCOL_BYTES) {
        char *head = head_of(kind);
        const uint64_t length = strlen(head);
        if (kind->format == SAFETENSORS)
            fwrite(&length, sizeof length, 1, stream);
        else
            snprintf(more, sizeof more, "Inference-Header-Content-Length: %zu\r\n", (size_t)length);
        fputs(head, stream);
        free(head);
        type =
            kind->format == SAFETENSORS ? "application/x-safetensors" : "application/octet-stream";
    } else if (kind->format == RAW_BYTES) {
        snprintf(more, sizeof more, "Inference-Header-Content-Length: 0\r\n");
        type = "application/octet-stream";
    } else if (kind->format == NPY) {
        static const char HEAD[] = NPY_HEAD("<f4", "(2, 3)");
        fwrite(HEAD, 1, sizeof HEAD - 1, stream);
        type = "application/x-npy";
    }
    if (kind->format == JSON_TEXT)
        write_json(stream, kind->body ? kind->body : "", fill);
    else
        write_data(stream, kind->tensors, fill);
    snprintf(lines, lines_size, "Content-Type: %s\r\n%s%s", type, more,
             kind->headers ? kind->headers : "");
}

/* -------------------------------------------------------------------- calls -- */

/* Writes two digits behind each place of a word, over those that are there. */
static void number_word(char *bytes, size_t size, const char *word, int number)
{
    const size_t length = strlen(word);
    char *at = bytes;
    while ((at = memmem(at, size - (size_t)(at - bytes), word, length))
           && at + length + 2 <= bytes + size) {
        at += length;
        if (isdigit((unsigned char)at[0]) && isdigit((unsigned char)at[1])) {
            at[0] = (char)('0' + number / 10);
            at[1] = (char)('0' + number % 10);
        }
    }
}

void kinds_name_first(char *body, size_t size, int caller)
{
    if (caller == 0)
        return;
    number_word(body, size, "own-", 0);
    number_word(body, size, "common-", 0);
    const char *name = KEYS[caller % KIND_KEYS], *first = KEYS[0];
    char text[32];
    const int length = snprintf(text, sizeof text, "\"owner\":\"%s\"", name);
    char *owner = memmem(body, size, text, (size_t)length);
    if (owner)
        memcpy(owner + length - 1 - (int)strlen(name), first, strlen(first));
}

/* The request of one caller, from that of the first. */
static struct traffic_request request_of(const struct traffic_request *first, int caller)
{
    struct traffic_request request = *first;
    char header[160];
    request.bytes = memcpy(malloc(first->size), first->bytes, first->size);
    number_word(request.bytes, request.size, "own-", caller);
    number_word(request.bytes, request.size, "common-", caller % KIND_KEYS);
    snprintf(header, sizeof header, "X-Api-Key: %s", key_secret(KEYS[caller % KIND_KEYS]));
    traffic_add_header(&request, header);
    return request;
}

static void add_call(struct kind_calls *kinds, const struct kind *kind, int variant)
{
    struct kind_call *call = &kinds->calls[kinds->count++];
    struct fill fill = { (uint64_t)(kind - KINDS) * VARIANTS + (uint64_t)variant };
    char *body = NULL, lines[256];
    size_t size;
    FILE *stream = open_memstream(&body, &size);
    write_body(stream, kind, &fill, lines, sizeof lines);
    fclose(stream);
    struct traffic_request first =
        traffic_any(kind->method ? kind->method : "POST", kind->path, lines, body, size);
    *call = (struct kind_call){ .path = kind->path,
                                .goes_on = kind->goes_on,
                                .is_first = kind->is_first,
                                .fails = kind->fails };
    for (int i = 0; i < KIND_CALLERS; i++)
        call->requests[i] = request_of(&first, i);
    traffic_requests_free(&first, 1);
    free(body);
}

void kinds_make(struct kind_calls *kinds)
{
    kinds->calls = calloc((size_t)KIND_COUNT * VARIANTS, sizeof *kinds->calls);
    kinds->count = 0;
    for (int first = 0, end; first < KIND_COUNT; first = end) {
        for (end = first + 1; end < KIND_COUNT && KINDS[end].goes_on;)
            end++;
        for (int variant = 0; variant < (KINDS[first].is_first ? 1 : VARIANTS); variant++)
            for (int i = first; i < end; i++)
                add_call(kinds, &KINDS[i], variant);
    }
}

void kinds_free(struct kind_calls *kinds)
{
    for (int i = 0; i < kinds->count; i++)
        traffic_requests_free(kinds->calls[i].requests, KIND_CALLERS);
    free(kinds->calls);
}

int kinds_length(const struct kind_calls *kinds, int first)
{
    int length = 1;
    while (first + length < kinds->count && kinds->calls[first + length].goes_on)
        length++;
    return length;
}

/* ---------------------------------------------------------- models and keys -- */

static void make_layer(const char *directory, const char *name, const char *attention,
                       const char *columns, const char *heads)
{
    char path[512];
    const bool is_added = strcmp(attention, "additive") == 0;
    snprintf(path, sizeof path, "%s/%s.safetensors", directory, name);
    struct daemon_result made = daemon_command(
        (const char *const[]){ "model", "new", "--attention", attention, "--d-model", columns,
                               is_added ? "--hidden" : "--q-heads", heads, path, NULL },
        NULL);
    if (made.exit_code != 0) {
        fprintf(stderr, "the model %s was not made: %s\n", name, made.errors);
        exit(1);
    }
    daemon_result_free(&made);
}

void kinds_make_models(const char *directory)
{
    char path[512];
    make_layer(directory, "layer", "scaled_dot_product", "64", "4");
    make_layer(directory, "wide", "scaled_dot_product", "256", "4");
    make_layer(directory, "added", "additive", "32", "16");
    snprintf(path, sizeof path, "cp -R examples/models/stories260K '%s'", directory);
    if (system(path) != 0)
        exit(1);
    snprintf(path, sizeof path, "%s/words", directory);
    word_model_make(path, word_model_tokenizer);
    snprintf(path, sizeof path, "%s/judge", directory);
    word_model_make_judge(path);
}

void kinds_make_keys(const char *path)
{
    struct key_line lines[KIND_KEYS + 1] = { { NULL, NULL } };
    for (int i = 0; i < KIND_KEYS; i++)
        lines[i] = (struct key_line){ KEYS[i], "infer sessions" };
    key_file_write(path, lines);
}
