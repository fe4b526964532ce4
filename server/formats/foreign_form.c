/* SPDX-License-Identifier: Apache-2.0 */
/* foreign_form.c - see foreign_form.h.
 *
 * A downloaded directory often holds a model in another format, or in several. The server reads
 * safetensors and GGUF. Both are data whose numbers can be mapped and used as they are, while a
 * pickle is a program. */
#include "formats/foreign_form.h"

#include "base/dtype.h"

#include <string.h>
#include <strings.h>

#define PICKLE "a pickle of PyTorch"

/* The endings that tell most about a directory come first. */
static const struct {
    const char *ending, *form;
} ENDINGS[] = {
    { ".bin", PICKLE },
    { ".pth", PICKLE },
    { ".pt", PICKLE },
    { ".pkl", PICKLE },
    { ".ckpt", "a checkpoint of a training framework" },
    { ".h5", "HDF5, the form of Keras" },
    { ".msgpack", "MessagePack, the form of Flax" },
    { ".onnx", "an ONNX graph" },
};
enum { ENDING_COUNT = sizeof ENDINGS / sizeof ENDINGS[0] };

/* The row of ENDINGS for a file name; ENDING_COUNT where none fits. */
static int find(const char *name)
{
    const char *ending = strrchr(name, '.');
    int i = 0;
    while (i < ENDING_COUNT && !(ending && strcmp(ending, ENDINGS[i].ending) == 0))
        i++;
    return i;
}

const char *foreign_form_of_name(const char *name)
{
    const int i = find(name);
    return i < ENDING_COUNT ? ENDINGS[i].form : NULL;
}

bool foreign_form_is_better(const char *name, const char *other)
{
    const int left = find(name), right = find(other);
    return left != right ? left < right : strcmp(name, other) < 0;
}

/* Whether text begins with word, in upper or lower case; a byte order mark and blanks may precede a
 * page's "<". */
static bool begins(const char *text, size_t size, const char *word)
{
    const size_t length = strlen(word);
    const bool is_page = word[0] == '<';
    if (is_page && size >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) {
        text += 3;
        size -= 3;
    }
    for (; is_page && size > 0 && strchr(" \t\r\n", *text) && *text; text++)
        size--;
    return size >= length && strncasecmp(text, word, length) == 0;
}

bool foreign_form_of_bytes(const void *bytes, size_t size, struct foreign_form *form)
{
    static const char SAVE[] = "save the model as safetensors, its parameters " DTYPE_NUMBERS,
                      DOWNLOAD[] = "download the file, not the page that shows it",
                      UNPACK[] = "unpack it: gunzip",
                      PULL[] = "fetch the file that it stands for: git lfs pull";
    static const struct {
        const char *magic;
        struct foreign_form form;
    } MAGICS[] = {
        { "GGUF", { "GGUF, the form of llama.cpp", "call it NAME.gguf" } },
        { "PK\3\4", { "a zip archive, as PyTorch writes its pickles", SAVE } },
        { "\x1f\x8b", { "a file packed by gzip", UNPACK } },
        { "\x80\2", { PICKLE, SAVE } },
        { "\x80\3", { PICKLE, SAVE } },
        { "\x80\4", { PICKLE, SAVE } },
        { "\x80\5", { PICKLE, SAVE } },
        { "\x89HDF\r\n", { "HDF5, the form of Keras", SAVE } },
        { "version https://git-lfs", { "a pointer of git-lfs", PULL } },
        { "<!doctype html", { "an HTML page", DOWNLOAD } },
        { "<html", { "an HTML page", DOWNLOAD } },
    };
    for (size_t i = 0; i < sizeof MAGICS / sizeof MAGICS[0]; i++)
        if (begins(bytes, size, MAGICS[i].magic)) {
            *form = MAGICS[i].form;
            return true;
        }
    return false;
}
