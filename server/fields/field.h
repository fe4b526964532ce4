/* SPDX-License-Identifier: Apache-2.0 */
/* field.h - tables that say what a body may hold: one row a field, read by one function.
 *
 * A row says what the field is called, where its value goes in a struct, and what values fit. The
 * same rows give the names for "did you mean" and the parameters under /v2.
 *
 * What all fields have in common is done once, in fields_read(): a field that is null counts as
 * absent; an unknown name is a fault with the nearest known one, or is ignored where the policy
 * says so; what came twice, as a field and as a tensor, is a fault; a fault has a pointer to the
 * value. */
#ifndef ATTND_FIELD_H
#define ATTND_FIELD_H

#include "base/arena.h"
#include "base/fault.h"
#include "fields/message.h"

#define FIELD_INTEGER_MAX 9007199254740992.0 /* 2^53: a double holds every integer up to it */

enum field_kind {
    FIELD_BOOL,     /* bool */
    FIELD_INTEGER,  /* int64_t, from least to most */
    FIELD_NUMBER,   /* double, within the range of a 32-bit float */
    FIELD_FLOAT,    /* float, the same */
    FIELD_STRING,   /* const char * */
    FIELD_BYTES,    /* struct byte_slice: a string that may have U+0000 */
    FIELD_ENUM,     /* int: the index in names */
    FIELD_ENUM_SET, /* bool [name_count]: a list of names */
    FIELD_STRINGS,  /* const char *const *, and count: a list of strings */
    FIELD_ARRAY,    /* struct array */
    FIELD_MASK,     /* struct array of booleans, or of numbers to add; has: whether of booleans */
    FIELD_LENGTHS,  /* struct integers: a number, or a list of them */
    FIELD_INTEGERS, /* const int64_t *, and count */
    FIELD_INDICES,  /* the same, ascending, each once */
    FIELD_PAIR,     /* int64_t [2] */
    FIELD_OBJECT,   /* what its table reads, into the place of the field */
    FIELD_LIST,     /* an array of objects: a pointer to structs of its table, and count */
    FIELD_OWN,      /* what its function reads */
    FIELD_REFUSED,  /* a known name that does not go here; expected is the message */
    FIELD_ELSEWHERE /* a known name that is read elsewhere */
};

enum field_flags {
    FIELD_NULLS = 1,  /* of an array: null among its numbers is -INFINITY */
    FIELD_TENSOR = 2, /* may come as a tensor, and of a list: its members may */
    FIELD_BESIDE =
        256, /* of a list: it comes as JSON, and members of its items as tensors beside */
    FIELD_SATURATES = 4,  /* an integer above 2^53 becomes INT64_MAX */
    FIELD_NEGATIVE = 128, /* integers may be negative */
    FIELD_RANGE = 8,      /* a pair whose second number is above its first */
    FIELD_PARAMETER = 16, /* under /v2 a parameter of the same name, of models with parameters */
    FIELD_ADDRESS = 64,   /* may be a parameter of the address, beside a body of one array */
    FIELD_REQUIRED =
        32, /* its absence is a fault, in a table that is in_order or of a FIELD_LIST */
};

struct field_reader;
struct field_table;

struct field {
    const char *name; /* NULL: known under /v2 alone */
    const char *onnx; /* its name as a parameter under /v2, of models without parameters; or NULL */
    enum field_kind kind;
    unsigned flags;
    size_t offset;            /* in the struct */
    size_t has;               /* offset of a bool that is set where the field came; 0: none */
    size_t count;             /* offset of the number of elements of a list */
    int64_t least, most;      /* most 0: 2^53 */
    enum fault_code code;     /* of a number out of bounds */
    const char *const *names; /* [name_count] of an enum, in its order */
    int name_count;
    const char *expected; /* for faults, where the kind alone does not say it */
    const struct field_table *inner;
    bool (*own)(struct field_reader *reader, const struct value *value, void *into);
    bool (*check)(struct field_reader *reader, const void *value); /* after reading; or NULL */
};

/* Names of a message that no row has. */
enum field_policy {
    FIELDS_STRICT, /* a fault */
    FIELDS_LISTED, /* a fault that lists the known ones if none is near */
    FIELDS_LENIENT /* ignored, unless a known name is near: then it is a typing error */
};

struct field_table {
    const struct field *rows;
    int count;
    enum field_policy policy;
    bool in_order; /* unknown names are faults first; then fields are read in the order of the rows,
                      so that one may depend on those before it. FIELD_OWN is read even where the
                      field is absent: its function gets VALUE_NULL */
    const char *list; /* the objects in this array are items, and fields beside it are for all of
                         them; NULL: the message is one item */
    int items_max;    /* of list */
    const char
        *nameless; /* the field that a body without names is, such as an .npy file; or NULL */
    size_t bytes;  /* of the struct */
};

/* Which names the rows have. */
enum field_naming { NAMED_AS_FIELDS, NAMED_AS_PARAMETERS, NAMED_AS_ONNX };

/* What is read, and how. */
struct field_reader {
    struct arena *arena; /* owns lists and copies */
    bool nonfinite_allowed;
    enum field_naming naming;
    const char *prefix; /* of pointers; NULL: none; else such as "/parameters" */
    bool is_flat; /* a parameter is no array: a list is a string of numbers between commas, and
                     a flag may be 0 or 1, as ONNX writes it */
    const struct field *field;
    const char *name; /* of the field, for faults */
    char pointer[FAULT_POINTER_MAX];
    struct fault *fault;
};

/* Where values go: into a struct of this table. */
struct field_target {
    const struct field_table *table; /* NULL: nowhere */
    void *into;
};

/* Reads the values of a message, but not the table's list. Rows of more hide rows of the same name.
 * False, with the fault. */
bool fields_read(const struct field_reader *reader, const struct message *message,
                 struct field_target target, struct field_target more);

/* Where items go: the one that a message is, or those of the table's list, which begin as copies of
 * what was read for all of them. */
struct field_items {
    struct field_target target, more; /* into: an item with its defaults; more.into NULL: also
                                         into the item of target */
    size_t fault_offset;              /* of an item's own struct fault */
    bool list_may_lack;               /* without the list, the message is one item */

    /* Set, in the reader's arena. */
    void *items, *more_items; /* [count] */
    int64_t count;
    bool is_list;
};

/* Reads a message as items. A fault of an item of the list is its own; false for any other. */
bool fields_read_items(const struct field_reader *reader, const struct message *message,
                       struct field_items *items);

/* The row of that name; NULL where there is none. */
const struct field *field_find(const struct field_table *table, enum field_naming naming,
                               const char *name);

/* The name of a row; NULL: these names lack it. */
const char *field_name(const struct field *field, enum field_naming naming);

/* Whether the value of the field of that name is text. Formats without types, such as metadata and
 * the parameters of an address, ask. */
bool field_is_text(const struct field_table *table, const char *name);

/* ------------------------------------------------- for rows with functions -- */

/* Makes the name what faults speak of: "/prefix/name". */
void field_point_to(struct field_reader *reader, const char *prefix, const char *name);

bool field_wrong_type(struct field_reader *reader, const struct value *value, const char *expected);

/* Read a value of reader->field into its place: a single value, a string that may have U+0000, an
 * array, lengths, a pair. */
bool field_read_single(struct field_reader *reader, const struct value *value, void *place);
bool field_read_bytes(struct field_reader *reader, const struct value *value,
                      struct byte_slice *into);
bool field_read_array(struct field_reader *reader, const struct value *value, void *into);
bool field_read_lengths(struct field_reader *reader, const struct value *value, void *place);
bool field_read_pair(struct field_reader *reader, const struct value *value, int64_t pair_at[2]);

/* Reads a list of integers: of 0 or more, in text at most 2^24; of FIELD_INDICES ascending. */
bool field_read_integers(struct field_reader *reader, const struct value *value,
                         const char *expected, const int64_t **list, int64_t *count);

/* Copies numbers as such integers, whatever their rank. Any other number is a fault of the row's
 * code, FAULT_OPTION where it has none. */
bool field_copy_integers(struct field_reader *reader, const struct json_numbers *numbers,
                         const int64_t **list, int64_t *count);

/* Reads a list of strings, which stay where they are. */
bool field_read_strings(struct field_reader *reader, const struct value *value,
                        const char *const **list, int64_t *count);

/* The numbers of an array whose rows have equal lengths, none of them a boolean or null; NULL with
 * a fault that names the first element that does not fit. */
const struct json_numbers *field_read_numbers(struct field_reader *reader,
                                              const struct value *value, const char *expected);

/* The steps of it: the array, which may have booleans and null, of more levels than JSON_RANK_MAX
 * where it may_be_deep; that its numbers are finite; and that it has none but numbers. */
struct json_numbers *field_find_rows(struct field_reader *reader, const struct value *value,
                                     const char *expected, bool may_be_deep);
struct json_numbers *field_find_numbers(struct field_reader *reader, const struct value *value,
                                        const char *expected);
bool field_expect_numbers(struct field_reader *reader, const struct json_numbers *numbers,
                          bool null_allowed);

#endif
