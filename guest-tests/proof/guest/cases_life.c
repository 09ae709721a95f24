/* Cases: many at a time, one after the other, changed while they live. */

static void case_same_buffer(const struct card *card)
{
	enum { MANY = 64 };
	uint8_t *memory = small_pages(8 * PAGE);
	struct region regions[MANY], rest[MANY / 2];
	for (int i = 0; i < MANY; i++) {
		int access = i & EVERY_RIGHT;
		if (access & (REMOTE_WRITE | REMOTE_ATOMIC))
			access |= LOCAL_WRITE;
		/* Half of them the very same range. */
		size_t offset = i % 4 < 2 ? 0 : i * 97;
		enroll(&regions[i], i % 3 ? card->pd : card->other_pd, memory + offset,
		       8 * PAGE - offset, access);
	}
	show(regions, MANY);
	/* What remains is not touched by what goes. */
	for (int i = 0; i < MANY; i += 2) {
		drop(&regions[i]);
		rest[i / 2] = regions[i + 1];
		regions[i / 2] = regions[i];
	}
	show_gone(regions, MANY / 2);
	show(rest, MANY / 2);
	withdraw(rest, MANY / 2);
	munmap(memory, 8 * PAGE);
}

static void case_ten_thousand(const struct card *card)
{
	enum { MANY = 10000 };
	const size_t length = (MANY + 1) * PAGE;
	uint8_t *memory = small_pages(length);
	struct region *regions = calloc(MANY, sizeof *regions);
	if (!regions)
		give_up("memory");
	for (size_t i = 0; i < MANY; i++) {
		/* Every seventh reaches into the next page. */
		size_t offset = i % 7 ? i * 37 % 3000 : PAGE - 3;
		enroll(&regions[i], card->pd, memory + i * PAGE + offset, 1 + i * 101 % 1000,
		       i % 2 ? LOCAL_WRITE : REMOTE_READ);
	}
	show(regions, MANY);
	withdraw(regions, MANY);
	free(regions);
	munmap(memory, length);
}

enum { THREADS = 8, KEPT = 4, ROUNDS = 25 };

struct worker {
	pthread_t thread;
	pthread_barrier_t *start;
	struct ibv_pd *pd;
	uint8_t *memory;
	size_t length;
	struct region kept[KEPT];
	int error;
};

static void *work(void *argument)
{
	struct worker *worker = argument;
	pthread_barrier_wait(worker->start);
	for (int round = 0; round < ROUNDS && !worker->error; round++) {
		struct region region;
		size_t offset = round * 411;
		enroll(&region, worker->pd, worker->memory + offset, worker->length - offset, LOCAL_WRITE);
		worker->error = region.mr ? ibv_dereg_mr(region.mr) : region.error;
	}
	for (int i = 0; i < KEPT; i++)
		enroll(&worker->kept[i], worker->pd, worker->memory + i * PAGE + i, 3 * PAGE,
		       LOCAL_WRITE | REMOTE_READ);
	return NULL;
}

static void *unwork(void *argument)
{
	struct worker *worker = argument;
	pthread_barrier_wait(worker->start);
	for (int i = 0; i < KEPT && !worker->error; i++)
		if (worker->kept[i].mr)
			worker->error = ibv_dereg_mr(worker->kept[i].mr);
	return NULL;
}

static void run_workers(struct worker *workers, void *(*what)(void *))
{
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&workers[i].thread, NULL, what, &workers[i]))
			give_up("pthread_create");
	for (int i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		if (workers[i].error)
			say_failed("registrations in a thread", workers[i].error);
	}
}

static void case_threads(const struct card *card)
{
	pthread_barrier_t start;
	struct worker workers[THREADS] = {0};
	struct region kept[THREADS * KEPT];
	pthread_barrier_init(&start, NULL, THREADS);
	for (int i = 0; i < THREADS; i++) {
		workers[i].start = &start;
		workers[i].pd = i % 2 ? card->pd : card->other_pd;
		workers[i].length = (8 + i) * PAGE;
		workers[i].memory = small_pages(workers[i].length);
	}
	run_workers(workers, work);
	for (int i = 0; i < THREADS; i++)
		memcpy(kept + i * KEPT, workers[i].kept, sizeof workers[i].kept);
	show(kept, THREADS * KEPT);
	run_workers(workers, unwork);
	show_gone(kept, THREADS * KEPT);
	for (int i = 0; i < THREADS; i++)
		munmap(workers[i].memory, workers[i].length);
	pthread_barrier_destroy(&start);
}

/* What is to change, and what it is afterwards. */
static void change(struct region *region, int what, struct ibv_pd *pd, uint8_t *address,
		   size_t length, int access)
{
	int error = ibv_rereg_mr(region->mr, what, pd, address, length, access);
	if (error) {
		say_failed("ibv_rereg_mr", errno);
		return;
	}
	if (what & IBV_REREG_MR_CHANGE_TRANSLATION) {
		region->address = address;
		region->length = length;
		region->iova = (uintptr_t)address;
	}
	if (what & IBV_REREG_MR_CHANGE_PD)
		region->pd = pd;
	if (what & IBV_REREG_MR_CHANGE_ACCESS)
		region->access = access;
	show(region, 1);
}

static void refuse_change(const char *call, struct region *region, int what, void *address,
			  size_t length, int access, const int *expected)
{
	int error;
	do {
		mark();
		errno = 0;
		error = ibv_rereg_mr(region->mr, what, NULL, address, length, access) ? errno : 0;
	} while (refused(call, error, expected));
	/* It is what it was. */
	show(region, 1);
}

static void case_reregistration(const struct card *card)
{
	enum {
		TRANSLATION = IBV_REREG_MR_CHANGE_TRANSLATION,
		DOMAIN = IBV_REREG_MR_CHANGE_PD,
		ACCESS = IBV_REREG_MR_CHANGE_ACCESS,
	};
	const size_t length = 400 * PAGE;
	uint8_t *memory = small_pages(length), *other = small_pages(length);
	struct region region;
	enroll(&region, card->pd, memory + 5, 20 * PAGE, LOCAL_WRITE | REMOTE_READ);
	show(&region, 1);
	if (region.mr) {
		change(&region, ACCESS, NULL, NULL, 0, LOCAL_WRITE | REMOTE_WRITE | REMOTE_ATOMIC);
		change(&region, ACCESS, NULL, NULL, 0, LOCAL_WRITE);
		change(&region, DOMAIN, card->other_pd, NULL, 0, 0);
		/* Less than it has room for, as much, and more. */
		change(&region, TRANSLATION, NULL, other + 9, 3 * PAGE, 0);
		change(&region, TRANSLATION, NULL, memory + PAGE, 20 * PAGE, 0);
		change(&region, TRANSLATION, NULL, other + 1, length - 2, 0);
		change(&region, DOMAIN | ACCESS, card->pd, NULL, 0, LOCAL_WRITE | REMOTE_READ);
		change(&region, TRANSLATION | DOMAIN | ACCESS, card->other_pd, memory + 7, 2 * PAGE,
		       LOCAL_WRITE | REMOTE_WRITE);
		change(&region, TRANSLATION | ACCESS, NULL, other, PAGE, LOCAL_WRITE);

		refuse_change("ibv_rereg_mr to illegal rights", &region, ACCESS, NULL, 0, REMOTE_WRITE,
			      ERRNOS(EINVAL));
		if (munmap(other + 2 * PAGE, PAGE))
			give_up("munmap");
		refuse_change("ibv_rereg_mr to a hole", &region, TRANSLATION, other, 4 * PAGE, 0,
			      ERRNOS(EFAULT));
	}
	withdraw(&region, 1);

	enroll(&region, card->pd, memory, PAGE, REMOTE_READ);
	show(&region, 1);
	/* Older kernels let what was pinned to be read be written: they lack ib_umem_check_rereg. */
	if (region.mr && kernel_before(6, 2))
		change(&region, ACCESS, NULL, NULL, 0, LOCAL_WRITE);
	else if (region.mr)
		refuse_change("ibv_rereg_mr from reading to writing", &region, ACCESS, NULL, 0, LOCAL_WRITE,
			      ERRNOS(EACCES, EFAULT));
	withdraw(&region, 1);
	munmap(memory, length);
	munmap(other, 2 * PAGE);
	munmap(other + 3 * PAGE, length - 3 * PAGE);
}

static void case_reuse(const struct card *card)
{
	uint32_t last = 0;
	int again = 0;
	for (int round = 0; round < 16; round++) {
		/* New memory, often at the same address. */
		size_t length = (1 + round % 4) * PAGE;
		uint8_t *memory = small_pages(length);
		struct region region;
		enroll(&region, card->pd, memory, length, round % 2 ? LOCAL_WRITE : REMOTE_READ);
		if (region.mr) {
			again += round && region.mr->lkey >> 8 == last >> 8;
			last = region.mr->lkey;
		}
		show(&region, 1);
		withdraw(&region, 1);
		munmap(memory, length);
	}
	char text[96];
	snprintf(text, sizeof text, "the driver took the key before for %d of 15 registrations", again);
	note(text);
}
