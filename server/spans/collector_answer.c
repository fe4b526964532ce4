/* collector_answer.c - see collector_answer.h.
 *
 * All that is not understood ends the connection: the next batch then gets a new one, and nothing
 * of this answer is taken for the next. */
#include "spans/collector_answer.h"

#include "text/json.h"
#include "text/text.h"

#include <string.h>
#include <strings.h>

enum { STATUS_LINE_MIN = 12, LENGTH_DIGITS_MAX = 9 };

/* The head of an answer while it is read. */
struct head {
    bool has_length, is_coded, is_bad;
    size_t length;
};

bool collector_answer_is_again(int status)
{
    return status == 429 || status == 502 || status == 503 || status == 504;
}

bool collector_answer_is_taken(int status)
{
    return status >= 200 && status < 300;
}

/* ------------------------------------------------------------------- head -- */

/* Reads "HTTP/1.1 200" of a line. No change of the protocol (101) was asked for. */
static bool read_status(struct collector_answer *answer, const char *line, size_t size)
{
    if (size < STATUS_LINE_MIN || memcmp(line, "HTTP/1.", 7) != 0 || line[8] != ' '
        || (line[7] != '0' && line[7] != '1') || (size > STATUS_LINE_MIN && line[12] != ' '))
        return false;
    for (int i = 9; i < STATUS_LINE_MIN; i++)
        if (line[i] < '0' || line[i] > '9')
            return false;
    answer->status = (line[9] - '0') * 100 + (line[10] - '0') * 10 + (line[11] - '0');
    answer->closes = line[7] == '0';
    return answer->status >= 100 && answer->status != 101 && answer->status <= 599;
}

/* Digits alone; false where there are others or too many. */
static bool read_digits(size_t *number, const char *text, size_t size)
{
    *number = 0;
    if (size == 0 || size > LENGTH_DIGITS_MAX)
        return false;
    for (size_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        *number = *number * 10 + (size_t)(text[i] - '0');
    }
    return true;
}

static bool is_name(const char *line, size_t size, const char *name)
{
    return size == strlen(name) && strncasecmp(line, name, size) == 0;
}

/* Two lengths, or one that is no number, make it unknown where the body ends. */
static void take_length(struct head *head, const char *value, size_t size)
{
    size_t length;
    const bool is_number = read_digits(&length, value, size);
    head->is_bad |= !is_number || (head->has_length && length != head->length);
    head->has_length = true;
    head->length = length;
}

/* Retry-After may also be a date, which is not read: the wait is then the exporter's own. */
static void take_retry_after(struct collector_answer *answer, const char *value, size_t size)
{
    size_t seconds = COLLECTOR_RETRY_AFTER_MAX_S, digits = 0;
    while (digits < size && value[digits] >= '0' && value[digits] <= '9')
        digits++;
    if (digits < size || (size <= LENGTH_DIGITS_MAX && !read_digits(&seconds, value, size)))
        return;
    answer->retry_after_s =
        seconds < COLLECTOR_RETRY_AFTER_MAX_S ? (int)seconds : COLLECTOR_RETRY_AFTER_MAX_S;
}

static void take_header(struct collector_answer *answer, struct head *head, const char *line,
                        size_t size)
{
    const char *colon = memchr(line, ':', size);
    if (!colon || colon == line) {
        head->is_bad = true;
        return;
    }
    const size_t name_size = (size_t)(colon - line);
    const char *value = colon + 1, *end = line + size;
    while (value < end && (*value == ' ' || *value == '\t'))
        value++;
    while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    const size_t value_size = (size_t)(end - value);
    if (is_name(line, name_size, "Content-Length"))
        take_length(head, value, value_size);
    else if (is_name(line, name_size, "Retry-After"))
        take_retry_after(answer, value, value_size);
    else if (is_name(line, name_size, "Transfer-Encoding"))
        head->is_coded = true;
    else if (is_name(line, name_size, "Connection") && !is_name(value, value_size, "keep-alive"))
        answer->closes = true;
}

/* The head with the empty line at its end. */
static bool read_head(struct collector_answer *answer, struct head *head, const char *bytes,
                      size_t size)
{
    const char *line = bytes, *end = bytes + size;
    const char *line_end = memmem(line, size, "\r\n", 2);
    if (!read_status(answer, line, (size_t)(line_end - line)))
        return false;
    for (line = line_end + 2;; line = line_end + 2) {
        line_end = memmem(line, (size_t)(end - line), "\r\n", 2);
        if (line_end == line)
            return true;
        take_header(answer, head, line, (size_t)(line_end - line));
    }
}

/* Heads with a status of 100 to 199 go before the answer, whether they were asked for or not
 * (RFC 9110, 15.2). */
static enum collector_reading read_heads(struct collector_answer *answer, struct head *head,
                                         const char *bytes, size_t size)
{
    size_t begins_at = 0;
    do {
        const char *head_end = memmem(bytes + begins_at, size - begins_at, "\r\n\r\n", 4);
        if (!head_end)
            return size < COLLECTOR_ANSWER_BYTES_MAX ? COLLECTOR_MORE : COLLECTOR_BAD;
        const size_t ends_at = (size_t)(head_end - bytes) + 4;
        *answer = (struct collector_answer){ .body_at = ends_at };
        *head = (struct head){ .has_length = false };
        if (!read_head(answer, head, bytes + begins_at, ends_at - begins_at))
            return COLLECTOR_BAD;
        begins_at = ends_at;
    } while (answer->status < 200);
    return COLLECTOR_DONE;
}

/* ----------------------------------------------------------------- answer -- */

enum collector_reading collector_answer_read(struct collector_answer *answer, const char *bytes,
                                             size_t size)
{
    struct collector_answer read;
    struct head head;
    const enum collector_reading reading = read_heads(&read, &head, bytes, size);
    if (reading != COLLECTOR_DONE)
        return reading;
    if (read.status == 204 || read.status == 304)
        head = (struct head){ .has_length = true, .is_bad = head.is_bad };
    if (head.is_bad || head.is_coded || !head.has_length
        || head.length > COLLECTOR_ANSWER_BYTES_MAX - read.body_at) {
        read.closes = true;
    } else {
        if (size - read.body_at < head.length)
            return COLLECTOR_MORE;
        read.body_size = head.length;
        read.closes |= size - read.body_at > head.length;
    }
    *answer = read;
    return COLLECTOR_DONE;
}

/* By the JSON mapping a 64-bit integer is a string; readers take a number too. */
static uint64_t count_of(const cJSON *node)
{
    uint64_t count = 0;
    size_t digits;
    if (cJSON_IsNumber(node) && json_whole(node, &count))
        return count;
    return cJSON_IsString(node)
                   && read_digits(&digits, node->valuestring, strlen(node->valuestring))
               ? digits
               : 0;
}

uint64_t collector_answer_rejected(const char *body, size_t size,
                                   char message[COLLECTOR_MESSAGE_MAX])
{
    static const struct json_options OPTIONS = { .values_max = 256 };
    struct json_document document;
    struct fault fault;
    message[0] = '\0';
    if (size == 0 || !json_read(&document, body, size, &OPTIONS, &fault))
        return 0;
    const cJSON *partial = cJSON_GetObjectItemCaseSensitive(document.root, "partialSuccess");
    const cJSON *said = cJSON_GetObjectItemCaseSensitive(partial, "errorMessage");
    const uint64_t count = count_of(cJSON_GetObjectItemCaseSensitive(partial, "rejectedSpans"));
    if (cJSON_IsString(said))
        text_copy(message, COLLECTOR_MESSAGE_MAX, said->valuestring);
    json_free(&document);
    return count;
}
