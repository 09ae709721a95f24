/* Random numbers that a seed repeats (xorshift64*). */

#include "verbsproof.h"

static uint64_t state = 1;

void random_seed(uint64_t seed)
{
	state = seed * 2 + 1;
	for (int i = 0; i < 8; i++)
		random_bits();
}

uint64_t random_bits(void)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return state * 0x2545f4914f6cdd1d;
}

size_t random_below(size_t limit)
{
	return limit ? (random_bits() >> 16) % limit : 0;
}

bool one_in(size_t n)
{
	return random_below(n) == 0;
}

void random_fill(uint8_t *bytes, size_t length)
{
	for (; length >= 8; bytes += 8, length -= 8) {
		uint64_t word = random_bits();
		memcpy(bytes, &word, 8);
	}
	uint64_t word = random_bits();
	memcpy(bytes, &word, length);
}
