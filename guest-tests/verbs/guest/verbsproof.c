/* Moves data through registered memory in every way and compares every byte.
 *
 *	verbsproof [--device NAME] [--seed N] [--batches N] [--lie-at BATCH] rc|rc-srq|uc|ud|xrc|refusals...
 *
 * What it does follows from the seed, which it says first. With --lie-at it changes one bit of what arrived
 * in that batch itself, and must find it. */

#include "verbsproof.h"

static uint64_t seed;
static size_t at_batch, lie_at = SIZE_MAX;
static const char *current = "";
static char story[4096];

void describe_nothing(void)
{
	story[0] = 0;
}

/* Notes what is being done, for when it fails. */
void describe(const char *format, ...)
{
	size_t length = strlen(story);
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(story + length, sizeof story - length, format, arguments);
	va_end(arguments);
	length = strlen(story);
	snprintf(story + length, sizeof story - length, "\n");
}

void fail(const char *format, ...)
{
	va_list arguments;
	printf("FAILED: %s, seed %llu, batch %zu: ", current, (unsigned long long)seed, at_batch);
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	printf("\n%s", story);
	fflush(stdout);
	exit(1);
}

static const char *const TRANSPORTS[] = {"rc", "rc-srq", "uc", "ud", "xrc"};

static void run(struct ibv_context *context, const char *what, size_t batches)
{
	struct ends ends;
	struct totals totals = {0};
	enum transport transport = RC;
	current = what;
	random_seed(seed);
	if (!strcmp(what, "refusals")) {
		refusals_run(context);
		return;
	}
	while (strcmp(what, TRANSPORTS[transport]))
		if (++transport > XRC)
			fail("there is no such transport");
	if (!ends_make(&ends, context, transport))
		fail("the device does not have it: %s", strerror(errno));
	for (at_batch = 0; at_batch < batches; at_batch++) {
		ends.lie = at_batch == lie_at;
		batch_run(&ends, &totals);
	}
	ends_close(&ends);
	printf("%s: %zu batches, %zu work requests, %zu bytes moved; every byte compared\n", what, totals.batches,
	       totals.requests, totals.bytes);
}

int main(int argc, char **argv)
{
	const char *device = NULL;
	size_t batches = 300;
	seed = (uint64_t)time(NULL);
	for (argv++, argc--; argc > 1 && !strncmp(*argv, "--", 2); argv += 2, argc -= 2) {
		if (!strcmp(*argv, "--device"))
			device = argv[1];
		else if (!strcmp(*argv, "--seed"))
			seed = strtoull(argv[1], NULL, 0);
		else if (!strcmp(*argv, "--batches"))
			batches = strtoul(argv[1], NULL, 0);
		else if (!strcmp(*argv, "--lie-at"))
			lie_at = strtoul(argv[1], NULL, 0);
		else
			break;
	}
	if (argc < 1 || **argv == '-') {
		fprintf(stderr, "usage: verbsproof [--device NAME] [--seed N] [--batches N] [--lie-at BATCH] "
				"rc|rc-srq|uc|ud|xrc|refusals...\n");
		return 2;
	}
	printf("seed %llu\n", (unsigned long long)seed);
	fflush(stdout);
	struct ibv_context *context = open_device(device);
	for (; *argv; argv++)
		run(context, *argv, batches);
	return ibv_close_device(context) ? 1 : 0;
}
