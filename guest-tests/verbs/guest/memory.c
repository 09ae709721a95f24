/* An end's memory and its model. */

#include "verbsproof.h"

enum { PAGE = 4096 };

void arena_make(struct arena *arena)
{
	const int protection = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
	uint8_t *bytes = mmap(NULL, ARENA, protection, flags, -1, 0);
	uint8_t *model = mmap(NULL, ARENA, protection, flags, -1, 0);
	if (bytes == MAP_FAILED || model == MAP_FAILED)
		fail("mmap: %s", strerror(errno));
	random_fill(model, ARENA);
	memcpy(bytes, model, ARENA);
	*arena = (struct arena){.bytes = bytes, .model = model};
}

/* Registers a window of this length that begins and ends anywhere: for this end under its own address,
 * because rdma-core itself writes to it what arrives within a completion, for the peer seldom so. */
void arena_open(struct arena *arena, struct ibv_pd *pd, size_t length)
{
	const int peers = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
	size_t at = PAGE + random_below(ARENA - length - 2 * PAGE);
	uint8_t *start = arena->bytes + at;
	uint64_t address = (uintptr_t)start;
	/* The kernel wants the same offset in a page. */
	if (one_in(2))
		address = (one_in(4) ? 0 : (random_bits() & 0xffffffffff) * PAGE) + at % PAGE;
	arena_close(arena);
	arena->own = ibv_reg_mr(pd, start, length, IBV_ACCESS_LOCAL_WRITE);
	arena->shown = ibv_reg_mr_iova(pd, start, length, address, IBV_ACCESS_LOCAL_WRITE | peers);
	if (!arena->own || !arena->shown)
		fail("registering %zu bytes: %s", length, strerror(errno));
	arena->window = (struct range){at, length};
	arena->next = at;
	arena->base = address - at;
}

/* Takes a range that no other of this batch has, some bytes behind the last one. */
bool arena_take(struct arena *arena, size_t length, size_t align, struct range *range)
{
	size_t at = arena->next + random_below(one_in(4) ? PAGE : 70);
	size_t over = at % align;
	if (over)
		at += align - over;
	if (at + length > arena->window.at + arena->window.length)
		return false;
	*range = (struct range){at, length};
	arena->next = at + length;
	return true;
}

void arena_fill(struct arena *arena, struct range range)
{
	random_fill(arena->model + range.at, range.length);
	memcpy(arena->bytes + range.at, arena->model + range.at, range.length);
}

/* Compares the window and what lies around it. */
void arena_compare(const struct arena *arena, const char *whose)
{
	size_t first = arena->window.at - PAGE, end = arena->window.at + arena->window.length + PAGE;
	if (!memcmp(arena->bytes + first, arena->model + first, end - first))
		return;
	size_t wrong = 0, at = 0;
	for (size_t i = end; i-- > first;)
		if (arena->bytes[i] != arena->model[i]) {
			wrong++;
			at = i;
		}
	fail("%s: %zu bytes are wrong, the first at offset %zu: %#x, not %#x (the window has %zu bytes from "
	     "%zu)",
	     whose, wrong, at, arena->bytes[at], arena->model[at], arena->window.length, arena->window.at);
}

void arena_close(struct arena *arena)
{
	if ((arena->own && ibv_dereg_mr(arena->own)) || (arena->shown && ibv_dereg_mr(arena->shown)))
		fail("ibv_dereg_mr: %s", strerror(errno));
	arena->own = arena->shown = NULL;
}
