/* SPDX-License-Identifier: Apache-2.0 */
/* map-png.c [URL [MODEL TEXT]] >maps.png - all attention maps of a text in one picture.
 *
 *     cc map-png.c $(pkg-config --cflags --libs libcurl) -lm -o map-png
 *
 * A line of maps for each layer, a map for each head; in a map a row for each token and a column
 * for each token that it may look at; dark is a large weight. POST /v1/trace answers the maps as a
 * safetensors file: 8 bytes with the size of a JSON header, the header, then the maps as floats,
 * layer after layer. The PNG (RFC 2083) holds its lines as they are, each as one stored block of
 * the zlib format (RFC 1950, RFC 1951). For models whose layers all have maps of one shape. */
#include <curl/curl.h>

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SCALE = 3, GAP = 6, GREY = 0xd8 }; /* pixels of a weight and between maps; between maps */

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "map-png: %s: %s\n", what, why);
    exit(1);
}

static uint32_t crc; /* of the chunk that is being written */

static void put(const void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        crc ^= ((const unsigned char *)bytes)[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
    }
    fwrite(bytes, 1, size, stdout);
}

static void put_number(uint32_t number)
{
    put((unsigned char[]){ number >> 24, number >> 16, number >> 8, number }, 4);
}

static void begin_chunk(const char *type, uint32_t size)
{
    put_number(size);
    crc = 0xffffffff;
    put(type, 4);
}

static void end_chunk(void)
{
    put_number(~crc);
}

/* pixels: [height][1 + width], each line with the number of its filter, 0, before it. */
static void write_png(const unsigned char *pixels, uint32_t width, uint32_t height)
{
    const uint32_t line = 1 + width;
    uint32_t a = 1, b = 0; /* Adler-32 */
    fwrite("\x89PNG\r\n\x1a\n", 1, 8, stdout);
    begin_chunk("IHDR", 13);
    put_number(width);
    put_number(height);
    put("\x08\0\0\0\0", 5); /* 8 bits of grey */
    end_chunk();
    begin_chunk("IDAT", 2 + height * (5 + line) + 4);
    put("\x78\x01", 2);
    for (uint32_t y = 0; y < height; y++, pixels += line) {
        put((unsigned char[]){ y + 1 == height, line, line >> 8, ~line, ~line >> 8 }, 5);
        put(pixels, line);
        for (uint32_t x = 0; x < line; x++)
            b = (b + (a = (a + pixels[x]) % 65521)) % 65521;
    }
    put_number(b << 16 | a);
    end_chunk();
    begin_chunk("IEND", 0);
    end_chunk();
}

/* maps: [layers][heads][rows][keys]. */
static void draw(const float *maps, int layers, int heads, int rows, int keys)
{
    const int across = keys * SCALE + GAP, down = rows * SCALE + GAP;
    const int width = heads * across + GAP, height = layers * down + GAP;
    unsigned char *pixels = malloc((size_t)height * (1 + width)), *to = pixels;
    if (!pixels || width >= 65535)
        fail("the picture", "is too large; ask for fewer tokens");
    for (int y = 0; y < height; y++) {
        *to++ = 0;
        for (int x = 0; x < width; x++) {
            const int layer = (y - GAP) / down, row = y < GAP ? rows : (y - GAP) % down / SCALE;
            const int head = (x - GAP) / across, key = x < GAP ? keys : (x - GAP) % across / SCALE;
            const int64_t at = ((int64_t)(layer * heads + head) * rows + row) * keys + key;
            *to++ = row < rows && key < keys ? lrintf(255 - 255 * sqrtf(maps[at])) : GREY;
        }
    }
    write_png(pixels, width, height);
    free(pixels);
}

/* The request's text is the caller's. */
static char *make_request(const char *model, const char *text)
{
    char *request;
    size_t size;
    FILE *body = open_memstream(&request, &size);
    fprintf(body, "{\"model\":\"%s\",\"text\":\"", model);
    for (; *text; text++)
        fprintf(body, strchr("\"\\", *text) || (unsigned char)*text < ' ' ? "\\u%04x" : "%c",
                *text);
    fputs("\"}", body);
    fclose(body);
    return request;
}

int main(int argc, char **argv)
{
    const char *model = argc > 3 ? argv[2] : "stories260K";
    const char *text = argc > 3
                           ? argv[3]
                           : "Once upon a time, there was a little girl named Lily. She loved to "
                             "play outside in the park. One day, she saw a big, red ball.";
    char url[512], *answer, *request = make_request(model, text);
    size_t size;
    FILE *received = open_memstream(&answer, &size);
    long status = 0;
    snprintf(url, sizeof url, "%s/v1/trace", argc > 1 ? argv[1] : "http://127.0.0.1:8080");

    curl_global_init(CURL_GLOBAL_DEFAULT);
    CURL *curl = curl_easy_init();
    struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
    headers = curl_slist_append(headers, "Accept: application/x-safetensors");
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, received);
    const CURLcode code = curl_easy_perform(curl);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    fclose(received);
    if (code != CURLE_OK || status != 200)
        fail(url, code != CURLE_OK ? curl_easy_strerror(code) : answer);

    uint64_t header_size;
    int heads, rows, keys;
    memcpy(&header_size, answer, sizeof header_size); /* little endian, as this machine is */
    const char *shape = strstr(answer + 8, "\"shape\":[");
    if (!shape || sscanf(shape, "\"shape\":[%d,%d,%d]", &heads, &rows, &keys) != 3)
        fail(url, "no maps");
    const size_t map_bytes = sizeof(float) * (size_t)rows * (size_t)keys;
    const int layers = (int)((size - 8 - header_size) / map_bytes / (size_t)heads);
    draw((const float *)(answer + 8 + header_size), layers, heads, rows, keys);
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
    curl_global_cleanup();
    free(request);
    free(answer);
    return 0;
}
