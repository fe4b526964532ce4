/* model_hub.c - see model_hub.h. */
#include "store/model_hub.h"

#include "store/model_paths.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { REVISION_BYTES = 128 };

/* Reads the revision in refs/main; "": there is none, or it is no name of a folder. */
static void read_main(struct arena *arena, const char *folder, char revision[REVISION_BYTES],
                      bool *failed)
{
    const char *path = model_paths_join(arena, folder, "refs/main");
    FILE *stream = path ? fopen(path, "re") : NULL;
    size_t length = 0;
    *failed = *failed || !path;
    if (stream) {
        length = fread(revision, 1, REVISION_BYTES - 1, stream);
        fclose(stream);
    }
    revision[length] = '\0';
    revision[strcspn(revision, " \r\n")] = '\0';
    if (!model_paths_name_good(revision))
        revision[0] = '\0';
}

/* The name of the only folder in snapshots; "": there are none or several. */
static void find_only(const char *snapshots, char revision[REVISION_BYTES])
{
    int count = 0;
    DIR *stream = opendir(snapshots);
    const struct dirent *entry;
    while (stream && (entry = readdir(stream)))
        if (model_paths_name_good(entry->d_name)) {
            count++;
            snprintf(revision, REVISION_BYTES, "%.*s", REVISION_BYTES - 1, entry->d_name);
        }
    if (stream)
        closedir(stream);
    if (count != 1)
        revision[0] = '\0';
}

const char *model_hub_snapshot(struct arena *arena, const char *folder, bool *failed)
{
    char revision[REVISION_BYTES];
    const char *snapshots = model_paths_join(arena, folder, "snapshots");
    *failed = *failed || !snapshots;
    if (!snapshots || !model_paths_is_folder(snapshots))
        return NULL;
    read_main(arena, folder, revision, failed);
    if (!revision[0])
        find_only(snapshots, revision);
    const char *path = revision[0] ? model_paths_join(arena, snapshots, revision) : NULL;
    *failed = *failed || (revision[0] && !path);
    return model_paths_is_folder(path) ? path : NULL;
}
