/* How many registrations a second: pairs of ibv_reg_mr and ibv_dereg_mr.
 *
 *	mrbench [--split] [--seconds N] DEVICE...
 *
 * prints a line of JSON for each size and device. The devices take turns, so that what else the machine
 * does falls on all of them: an mlx5 and a soft-RoCE for instance. "pairs_per_second" is the best turn,
 * "typical" the median one. With --split there is one turn of fewer pairs, in which the kernel's tracer
 * times the parts of each pair (which costs time itself). */

#define TRACING "/sys/kernel/tracing/"

/* Functions that are timed, and the part that each stands for. A part within another is counted there
 * as well; what a kernel lacks is not counted. */
static const struct {
	const char *function;
	const char *part;
} PARTS[] = {
	{"ib_uverbs_reg_mr", "reg_mr"},
	{"ib_uverbs_dereg_mr", "dereg_mr"},
	{"uverbs_free_mr", "dereg_mr"},
	{"ib_umem_get", "umem"},
	{"ib_umem_get_va", "umem"},
	{"pin_user_pages_fast", "pin"},
	{"dma_map_sgtable", "dma_map"},
	{"ib_umem_release", "release"},
	{"mlx5r_umr_update_mr_pas", "umr"},
	{"mlx5r_umr_update_mr_pas_range", "umr"},
	{"mlx5r_umr_revoke_mr", "umr"},
	{"wait_for_completion", "wait"},
	{"mlx5_cmd_exec", "command"},
	{"mlx5_cmd_do", "command"},
};

enum { PART_COUNT = sizeof PARTS / sizeof PARTS[0], MOST = 1 << 20 };

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

static int by_value(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;
	return (left > right) - (left < right);
}

static double median(double *values, size_t count)
{
	qsort(values, count, sizeof *values, by_value);
	return values[count / 2];
}

static bool start_split(void)
{
	char pid[32];
	snprintf(pid, sizeof pid, "%d", getpid());
	if (!write_text(TRACING "current_tracer", "nop"))
		return false;
	int filter = open(TRACING "set_ftrace_filter", O_WRONLY | O_TRUNC | O_CLOEXEC);
	if (filter < 0)
		return false;
	for (int i = 0; i < PART_COUNT; i++) {
		/* One a write: a function that does not exist fails alone. */
		if (write(filter, PARTS[i].function, strlen(PARTS[i].function)) > 0)
			(void)!write(filter, "\n", 1);
	}
	close(filter);
	return write_text(TRACING "set_ftrace_pid", pid) &&
	       write_text(TRACING "buffer_size_kb", "16384") &&
	       write_text(TRACING "options/funcgraph-tail", "1") &&
	       write_text(TRACING "trace", "\n") &&
	       write_text(TRACING "current_tracer", "function_graph");
}

/* Sums the durations that the kernel noted, and prints the mean of a pair in microseconds. */
static void print_split(size_t pairs)
{
	double sums[PART_COUNT] = {0};
	char line[512];
	write_text(TRACING "tracing_on", "0");
	FILE *trace = fopen(TRACING "trace", "re");
	while (trace && fgets(line, sizeof line, trace)) {
		/* " 0)   1.234 us    |  name();" or " 0) + 12.3 us |  } / * name * /" */
		char *bar = strchr(line, '|'), *unit = strstr(line, " us ");
		if (!bar || !unit || unit > bar)
			continue;
		char *number = unit;
		while (number > line && strchr("0123456789.", number[-1]))
			number--;
		double duration = strtod(number, NULL);
		char *name = bar + 1 + strspn(bar + 1, " }/*");
		size_t length = strcspn(name, " ();[");
		for (int i = 0; i < PART_COUNT; i++)
			if (strlen(PARTS[i].function) == length && !memcmp(PARTS[i].function, name, length))
				sums[i] += duration;
	}
	if (trace)
		fclose(trace);
	write_text(TRACING "current_tracer", "nop");
	write_text(TRACING "tracing_on", "1");
	printf(",\"us_per_pair\":{");
	const char *comma = "";
	for (int i = 0; i < PART_COUNT; i++) {
		double sum = 0;
		bool first = true;
		for (int j = 0; j < PART_COUNT; j++) {
			if (strcmp(PARTS[i].part, PARTS[j].part))
				continue;
			sum += sums[j];
			first = first && j >= i;
		}
		if (!first)
			continue;
		printf("%s\"%s\":%.2f", comma, PARTS[i].part, sum / pairs);
		comma = ",";
	}
	putchar('}');
}

/* One turn of a device. */
struct turn {
	double rate;  /* pairs a second */
	double reg;   /* median, seconds */
	double dereg; /* median, seconds */
	size_t pairs;
};

enum { TURNS = 5, SPLIT_PAIRS = 50 };

static struct turn take_turn(struct ibv_pd *pd, uint8_t *memory, size_t length, double seconds,
			     size_t most)
{
	static double reg[MOST], dereg[MOST];
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
	size_t pairs = 0;
	double begin = now(), end = begin;
	while (pairs < most && (pairs < 2 || end - begin < seconds)) {
		double start = now();
		struct ibv_mr *mr = ibv_reg_mr(pd, memory, length, access);
		double middle = now();
		if (!mr || ibv_dereg_mr(mr))
			give_up("ibv_reg_mr");
		end = now();
		reg[pairs] = middle - start;
		dereg[pairs] = end - middle;
		pairs++;
	}
	return (struct turn){
		.rate = pairs / (end - begin),
		.reg = median(reg, pairs),
		.dereg = median(dereg, pairs),
		.pairs = pairs,
	};
}

static int by_rate(const void *a, const void *b)
{
	double left = ((const struct turn *)a)->rate, right = ((const struct turn *)b)->rate;
	return (left < right) - (left > right);
}

static void print_turns(const struct ibv_pd *pd, size_t length, bool huge, struct turn *turns, int count)
{
	qsort(turns, count, sizeof *turns, by_rate);
	printf("{\"device\":\"%s\",\"length\":%zu,\"page\":%lu,\"pairs\":%zu,\"pairs_per_second\":%.1f,"
	       "\"typical\":%.1f,\"reg_us\":%.1f,\"dereg_us\":%.1f",
	       ibv_get_device_name(pd->context->device), length, huge ? HUGE_PAGE : PAGE, turns->pairs,
	       turns->rate, turns[count / 2].rate, turns->reg * 1e6, turns->dereg * 1e6);
}

static void end_line(void)
{
	puts("}");
	fflush(stdout);
}

struct bench {
	struct ibv_pd *pds[8];
	int devices;
	double seconds; /* for a device and size */
	bool split;
};

static void measure(const struct bench *bench, uint8_t *memory, size_t length, bool huge)
{
	struct turn turns[8][TURNS];
	/* The first pair of a device makes what later ones use. */
	for (int device = 0; device < bench->devices; device++)
		take_turn(bench->pds[device], memory, length, 0, 2);
	for (int turn = 0; turn < TURNS && !bench->split; turn++)
		for (int device = 0; device < bench->devices; device++)
			turns[device][turn] = take_turn(bench->pds[device], memory, length,
							bench->seconds / TURNS, MOST);
	for (int device = 0; device < bench->devices; device++) {
		struct ibv_pd *pd = bench->pds[device];
		if (bench->split) {
			if (!start_split())
				give_up("the kernel's function graph tracer");
			turns[device][0] = take_turn(pd, memory, length, bench->seconds, SPLIT_PAIRS);
			print_turns(pd, length, huge, turns[device], 1);
			print_split(turns[device][0].pairs);
		} else {
			print_turns(pd, length, huge, turns[device], TURNS);
		}
		end_line();
	}
}

static void measure_size(const struct bench *bench, size_t length, bool huge)
{
	if (!fits(length) || (huge && !want_huge_pages(length / HUGE_PAGE))) {
		printf("{\"length\":%zu,\"page\":%lu,\"skipped\":\"not enough memory\"", length,
		       huge ? HUGE_PAGE : PAGE);
		end_line();
		return;
	}
	uint8_t *memory;
	if (huge) {
		memory = map(length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1);
		touch(memory, length);
	} else {
		memory = small_pages(length);
	}
	measure(bench, memory, length, huge);
	munmap(memory, length);
	if (huge)
		write_text(POOL, "0");
}

int main(int argc, char **argv)
{
	static const struct {
		size_t length;
		bool huge;
	} sizes[] = {{PAGE, false},	  {MIB, false},	     {64 * MIB, false},  {1024 * MIB, false},
		     {HUGE_PAGE, true}, {64 * MIB, true}, {1024 * MIB, true}};
	struct bench bench = {.seconds = 3};
	for (argv++; *argv && **argv == '-'; argv++) {
		if (!strcmp(*argv, "--split"))
			bench.split = true;
		else if (!strcmp(*argv, "--seconds") && argv[1])
			bench.seconds = strtod(*++argv, NULL);
		else
			break;
	}
	if (argc < 2 || !*argv || **argv == '-') {
		fprintf(stderr, "usage: mrbench [--split] [--seconds N] DEVICE...\n");
		return 2;
	}
	for (; *argv && bench.devices < 8; argv++) {
		struct ibv_pd *pd = ibv_alloc_pd(open_device(*argv));
		if (!pd)
			give_up("ibv_alloc_pd");
		bench.pds[bench.devices++] = pd;
	}
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
		measure_size(&bench, sizes[i].length, sizes[i].huge);
	return 0;
}
