/* SPDX-License-Identifier: Apache-2.0 */
/* replay.c - runs a fuzz target over stored inputs, without libFuzzer.
 *
 *     fuzz_json tests/fuzz/corpus/json some-crasher
 *
 * Each argument is a file or a folder of files. The program fails if a file cannot be read or if
 * there is no file at all, so that a lost corpus does not pass. */
#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return false;
    uint8_t *data = NULL;
    size_t used = 0, capacity = 4096, read = 0;
    bool good = true;
    do {
        capacity *= 2;
        uint8_t *larger = realloc(data, capacity);
        good = larger != NULL;
        if (!good)
            break;
        data = larger;
        read = fread(data + used, 1, capacity - used, file);
        used += read;
    } while (used == capacity);
    good = good && !ferror(file);
    fclose(file);
    /* Prints the name first: it is the last line if the target ends the program. */
    printf("%s, %zu bytes\n", path, used);
    fflush(stdout);
    if (good)
        LLVMFuzzerTestOneInput(data, used);
    free(data);
    return good;
}

/* Returns the number of files run; -1 if one could not be read. */
static int replay_folder(DIR *folder, const char *path)
{
    int count = 0;
    for (const struct dirent *entry = readdir(folder); entry; entry = readdir(folder)) {
        char name[4096];
        const int length = snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        if (entry->d_name[0] == '.')
            continue;
        if (length >= (int)sizeof name || !replay_file(name))
            return -1;
        count++;
    }
    return count;
}

static int replay(const char *path)
{
    DIR *folder = opendir(path);
    if (!folder)
        return replay_file(path) ? 1 : -1;
    const int count = replay_folder(folder, path);
    closedir(folder);
    return count;
}

int main(int argc, char **argv)
{
    int total = 0;
    for (int i = 1; i < argc; i++) {
        const int count = replay(argv[i]);
        if (count < 0) {
            perror(argv[i]);
            return 1;
        }
        total += count;
    }
    printf("%d inputs\n", total);
    return total > 0 ? 0 : 1;
}
