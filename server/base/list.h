/* list.h - items in the order in which they came, each of which carries the list's two pointers:
 * no memory of the list's own, and any item is taken out in one step.
 *
 * Macros, so that the pointers are of the items' type. `link` is the member, a LIST_LINK, by which
 * an item is in the list; it may be in as many lists as it has links. A zeroed list is empty and a
 * zeroed link in no list. Lists borrow their items, and callers hold their locks. Arguments are
 * evaluated more than once. */
#ifndef ATTND_LIST_H
#define ATTND_LIST_H

#include <stddef.h>

#define LIST_OF(type)                                                                              \
    struct {                                                                                       \
        type *first, *last;                                                                        \
    }

#define LIST_LINK(type)                                                                            \
    struct {                                                                                       \
        type *next, *previous;                                                                     \
    }

/* Whether an item is in this list, of those that it may be in by that link. */
#define LIST_HAS(list, item, link) ((list)->first == (item) || (item)->link.previous)

#define LIST_APPEND(list, item, link)                                                              \
    do {                                                                                           \
        (item)->link.next = NULL;                                                                  \
        (item)->link.previous = (list)->last;                                                      \
        *((list)->last ? &(list)->last->link.next : &(list)->first) = (item);                      \
        (list)->last = (item);                                                                     \
    } while (0)

/* Of an item that is in it. Whoever goes through the list has read `next` before. */
#define LIST_TAKE_OUT(list, item, link)                                                            \
    do {                                                                                           \
        *((item)->link.previous ? &(item)->link.previous->link.next : &(list)->first) =            \
            (item)->link.next;                                                                     \
        *((item)->link.next ? &(item)->link.next->link.previous : &(list)->last) =                 \
            (item)->link.previous;                                                                 \
        (item)->link.next = (item)->link.previous = NULL;                                          \
    } while (0)

#endif
