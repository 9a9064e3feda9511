/* arena.c - memory for one request's JSON (arena.h). */
#include "arena.h"

#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>

#define FIRST (16u << 10)
#define MOST (1u << 20)
#define ALIGN 16u

struct arena_piece {
    struct arena_piece *next;
    size_t size;
};

static _Thread_local struct arena *current;

static void *take_new(struct arena *arena, size_t size) {
    size_t head = (sizeof(struct arena_piece) + ALIGN - 1) / ALIGN * ALIGN;
    size_t room = !arena->pieces ? FIRST : arena->pieces->size < MOST ? 2 * arena->pieces->size : MOST;
    if (size > SIZE_MAX / 2)
        return NULL;
    if (room < size + head)
        room = size + head;
    struct arena_piece *piece = malloc(room);
    if (!piece)
        return NULL;
    *piece = (struct arena_piece){arena->pieces, room};
    arena->pieces = piece;
    arena->at = (char *)piece + head + size;
    arena->end = (char *)piece + room;
    return (char *)piece + head;
}

static void *take(size_t size) {
    struct arena *arena = current;
    if (!arena)
        return malloc(size);
    size = (size + ALIGN - 1) / ALIGN * ALIGN;
    if (size > (size_t)(arena->end - arena->at))
        return take_new(arena, size);
    arena->at += size;
    return arena->at - size;
}

static void give(void *memory) {
    if (!current)
        free(memory);
}

void arena_install(void) {
    json_set_alloc_funcs(take, give);
    json_object_seed(0);
}

void arena_enter(struct arena *arena) { current = arena; }
void arena_leave(void) { current = NULL; }

void arena_free(struct arena *arena) {
    for (struct arena_piece *piece = arena->pieces, *next; piece; piece = next) {
        next = piece->next;
        free(piece);
    }
    *arena = (struct arena){0};
}
