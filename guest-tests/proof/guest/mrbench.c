/* How many registrations a second: pairs of ibv_reg_mr and ibv_dereg_mr.
 *
 *	mrbench DEVICE [SECONDS]		a line of JSON for each size
 *	mrbench --split DEVICE [SECONDS]	the same, with the time that the kernel spends in each part
 *
 * Two devices in one boot can be compared, an mlx5 and a soft-RoCE for instance. The split costs time
 * itself, so its pairs are fewer. */

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

static void measure(struct ibv_pd *pd, uint8_t *memory, size_t length, double seconds, bool split)
{
	static double reg[MOST], dereg[MOST];
	size_t pairs = 0;
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
	/* The first pair may make what later ones use. */
	for (int warm = 0; warm < 2; warm++) {
		struct ibv_mr *mr = ibv_reg_mr(pd, memory, length, access);
		if (!mr || ibv_dereg_mr(mr))
			give_up("ibv_reg_mr");
	}
	if (split && !start_split())
		give_up("the kernel's function graph tracer");
	double begin = now(), end = begin;
	while (pairs < MOST && (pairs < 3 || end - begin < seconds) && !(split && pairs >= 50)) {
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
	printf(",\"pairs\":%zu,\"seconds\":%.3f,\"pairs_per_second\":%.1f,\"reg_us\":%.1f,\"dereg_us\":%.1f",
	       pairs, end - begin, pairs / (end - begin), median(reg, pairs) * 1e6,
	       median(dereg, pairs) * 1e6);
	if (split)
		print_split(pairs);
	printf("}\n");
	fflush(stdout);
}

static void measure_size(struct ibv_pd *pd, size_t length, bool huge, double seconds, bool split)
{
	printf("{\"device\":\"%s\",\"length\":%zu,\"page\":%lu", ibv_get_device_name(pd->context->device),
	       length, huge ? HUGE_PAGE : PAGE);
	if (!fits(length) || (huge && !want_huge_pages(length / HUGE_PAGE))) {
		printf(",\"skipped\":\"not enough memory\"}\n");
		fflush(stdout);
		return;
	}
	uint8_t *memory;
	if (huge) {
		memory = map(length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1);
		touch(memory, length);
	} else {
		memory = small_pages(length);
	}
	measure(pd, memory, length, seconds, split);
	munmap(memory, length);
	if (huge)
		write_text(POOL, "0");
}

int main(int argc, char **argv)
{
	bool split = argc > 1 && !strcmp(argv[1], "--split");
	argc -= split;
	argv += split;
	if (argc < 2 || argc > 3) {
		fprintf(stderr, "usage: mrbench [--split] DEVICE [SECONDS]\n");
		return 2;
	}
	double seconds = argc == 3 ? strtod(argv[2], NULL) : 3;
	struct ibv_context *context = open_device(argv[1]);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	if (!pd)
		give_up("ibv_alloc_pd");
	const size_t small[] = {PAGE, MIB, 64 * MIB, 1024 * MIB};
	const size_t huge[] = {HUGE_PAGE, 64 * MIB, 1024 * MIB};
	for (size_t i = 0; i < sizeof small / sizeof small[0]; i++)
		measure_size(pd, small[i], false, seconds, split);
	for (size_t i = 0; i < sizeof huge / sizeof huge[0]; i++)
		measure_size(pd, huge[i], true, seconds, split);
	ibv_dealloc_pd(pd);
	ibv_close_device(context);
	return 0;
}
