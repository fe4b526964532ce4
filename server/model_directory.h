/* model_directory.h - which models a directory holds, by the names of its files
 * alone (API.md section 2, "Models on disk"). Nothing is opened here. */
#ifndef ATTND_MODEL_DIRECTORY_H
#define ATTND_MODEL_DIRECTORY_H

#include "arena.h"
#include "fault.h"

struct model_place {
    const char *name;
    bool is_folder;     /* else one file, DIR/<name>.safetensors */
    const char *source; /* the file or folder */
    const char *path;   /* of the safetensors file, or of the index of its shards; NULL: there is
                           none, and problem says so */
    const char *config_path; /* NULL: the config is in the file's metadata */
    const char *problem;
};

struct model_directory {
    struct model_place *places; /* by name; of a folder and a file of one name the folder first */
    int64_t count;
    bool is_one_model;  /* the directory itself is the only one */
    struct arena arena; /* holds all strings */
};

/* model_name names a directory that is itself one model; NULL: its own name. Hidden files, and
 * those whose name is no model's, are passed over. */
bool model_directory_scan(struct model_directory *directory, const char *path,
                          const char *model_name, struct fault *fault);
void model_directory_free(struct model_directory *directory);

/* Fills path, config_path and problem of place from what one model's folder holds, or the highest
 * numbered version in it. False where there is no memory. */
bool model_directory_look(struct arena *arena, struct model_place *place, const char *folder);

/* Fills place for the model of a name that is good: its folder, or else its file. source is NULL
 * where the directory has neither. False where there is no memory. */
bool model_directory_find(struct arena *arena, struct model_place *place, const char *path,
                          const char *name);

/* 1 to 128 ASCII letters, digits, '.', '_' and '-', the first a letter or digit. */
bool model_directory_name_good(const char *name);

#endif
