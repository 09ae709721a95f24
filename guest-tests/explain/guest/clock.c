/* Pairs of the guest's and the card's time.
 *
 * The card's clock is read through the verbs library: three reads of the card's internal timer. The
 * guest's clock before and after bounds when that was. The tracer's clock is the same as ours. */

#include "explain.h"

#include <inttypes.h>
#include <time.h>

enum { EXCHANGES = 64 };

static uint64_t guest_now(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * UINT64_C(1000000000) + now.tv_nsec;
}

/* A line each: the guest's time in ns before and after, the card's ticks, and the card's ticks a
 * millisecond. */
void exchange_times(struct ibv_context *context, FILE *to)
{
	struct ibv_device_attr_ex card = {0};
	if (!context || ibv_query_device_ex(context, NULL, &card) != 0)
		return;
	for (int i = 0; i < EXCHANGES; i++) {
		struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
		uint64_t before = guest_now();
		if (ibv_query_rt_values_ex(context, &values) != 0)
			return;
		uint64_t after = guest_now();
		fprintf(to, "%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", before, after,
			(uint64_t)values.raw_clock.tv_nsec, card.hca_core_clock);
	}
}
