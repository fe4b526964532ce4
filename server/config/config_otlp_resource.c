/* config_otlp_resource.c - see config_otlp_resource.h. */
#include "config/config_otlp_resource.h"

#include "base/version.h"
#include "spans/span_json.h"
#include "text/text.h"

#include <string.h>

enum { ATTRIBUTES_MAX = 32, ATTRIBUTES_BYTES_MAX = 4096 };

struct attributes {
    struct {
        const char *name, *value;
    } all[ATTRIBUTES_MAX];
    int count;
    char bytes[ATTRIBUTES_BYTES_MAX]; /* where they lie */
};

static const char *find(const struct attributes *attributes, const char *name)
{
    for (int i = 0; i < attributes->count; i++)
        if (strcmp(attributes->all[i].name, name) == 0)
            return attributes->all[i].value;
    return NULL;
}

static int digit(char character)
{
    const char *digits = "0123456789abcdef0123456789ABCDEF";
    const char *at = character ? strchr(digits, character) : NULL;
    return at ? (int)(at - digits) % 16 : -1;
}

/* Undoes %2C and the like in place. False for a broken escape, or one of NUL. */
static bool decode(char *text)
{
    char *out = text;
    for (const char *p = text; *p; p++) {
        if (*p != '%') {
            *out++ = *p;
            continue;
        }
        const int high = digit(p[1]), low = high < 0 ? -1 : digit(p[2]);
        if (low < 0 || high + low == 0)
            return false;
        *out++ = (char)(high << 4 | low);
        p += 2;
    }
    *out = '\0';
    return true;
}

static char *trim(char *text)
{
    text += strspn(text, " \t");
    size_t size = strlen(text);
    while (size > 0 && (text[size - 1] == ' ' || text[size - 1] == '\t'))
        size--;
    text[size] = '\0';
    return text;
}

/* Of two with one name the first counts. */
static bool add(struct attributes *attributes, char *member)
{
    char *equals = strchr(member, '=');
    if (!equals)
        return false;
    *equals = '\0';
    char *name = trim(member), *value = trim(equals + 1);
    if (!name[0] || attributes->count == ATTRIBUTES_MAX || !decode(name) || !decode(value))
        return false;
    if (find(attributes, name))
        return true;
    attributes->all[attributes->count].name = name;
    attributes->all[attributes->count++].value = value;
    return true;
}

static bool read(struct attributes *attributes, const char *text)
{
    attributes->count = 0;
    const size_t size = strlen(text) + 1;
    if (size > sizeof attributes->bytes)
        return false;
    char *rest = memcpy(attributes->bytes, text, size);
    for (char *member = strsep(&rest, ","); member; member = strsep(&rest, ","))
        if (trim(member)[0] && !add(attributes, member))
            return false;
    return true;
}

static bool is_own(const char *name)
{
    return strcmp(name, "service.name") == 0 || strcmp(name, "service.version") == 0
           || strcmp(name, "service.instance.id") == 0;
}

bool config_otlp_resource_write(char *out, size_t out_size, const char *service_name,
                                const char *attributes, const char *instance)
{
    struct attributes given;
    struct text text = text_in(out, out_size);
    struct fault fault;
    if (!read(&given, attributes ? attributes : ""))
        return false;
    const char *given_name = find(&given, "service.name");
    const char *given_instance = find(&given, "service.instance.id");
    const char *name = service_name ? service_name : given_name;
    text_bytes(&text, "[", 1);
    span_json_string(&text, "service.name", name ? name : "attnd");
    text_bytes(&text, ",", 1);
    span_json_string(&text, "service.version", ATTND_VERSION);
    text_bytes(&text, ",", 1);
    span_json_string(&text, "service.instance.id", given_instance ? given_instance : instance);
    for (int i = 0; i < given.count; i++) {
        if (is_own(given.all[i].name))
            continue;
        text_bytes(&text, ",", 1);
        span_json_string(&text, given.all[i].name, given.all[i].value);
    }
    text_bytes(&text, "]", 1);
    if (!text_finish(&text, &fault))
        return false;
    out[text.used] = '\0';
    return true;
}
