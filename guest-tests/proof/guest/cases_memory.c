/* Cases: where registered memory begins and ends, and what it is made of. */

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static void case_one_byte(const struct card *card)
{
	uint8_t *memory = small_pages(2 * PAGE);
	const size_t offsets[] = {0, 1, 2047, PAGE - 1, PAGE};
	for (size_t i = 0; i < COUNT(offsets); i++)
		prove(card->pd, memory + offsets[i], 1, LOCAL_WRITE | REMOTE_READ);
	munmap(memory, 2 * PAGE);
}

static void case_one_page(const struct card *card)
{
	uint8_t *memory = small_pages(3 * PAGE);
	for (int i = 0; i < 3; i++)
		prove(card->pd, memory + i * PAGE, PAGE, LOCAL_WRITE);
	munmap(memory, 3 * PAGE);
}

static void case_unaligned(const struct card *card)
{
	uint8_t *memory = small_pages(64 * PAGE);
	const struct {
		size_t offset, length;
	} ranges[] = {{1, PAGE - 2}, {0, 10 * PAGE + 1}, {PAGE - 1, 10 * PAGE}, {123, 40 * PAGE + 4567}};
	struct region region;
	/* The one whose story is told. */
	enroll(&region, card->pd, memory + 0x801, 3 * PAGE + 57, LOCAL_WRITE | REMOTE_READ);
	show_as(&region, 1, ",\"story\":true");
	withdraw(&region, 1);
	for (size_t i = 0; i < COUNT(ranges); i++)
		prove(card->pd, memory + ranges[i].offset, ranges[i].length, LOCAL_WRITE | REMOTE_WRITE);
	munmap(memory, 64 * PAGE);
}

static void case_across_pages(const struct card *card)
{
	uint8_t *memory = small_pages(513 * PAGE);
	prove(card->pd, memory + PAGE - 1, 2, LOCAL_WRITE);
	prove(card->pd, memory + PAGE / 2, PAGE, REMOTE_READ);
	prove(card->pd, memory, 2 * PAGE, LOCAL_WRITE);
	/* Beside what fills a mailbox with translations. */
	prove(card->pd, memory, 63 * PAGE, LOCAL_WRITE);
	prove(card->pd, memory, 64 * PAGE, LOCAL_WRITE);
	prove(card->pd, memory, 65 * PAGE, LOCAL_WRITE);
	prove(card->pd, memory, 511 * PAGE, LOCAL_WRITE);
	prove(card->pd, memory, 513 * PAGE, LOCAL_WRITE);
	munmap(memory, 513 * PAGE);
}

static void case_mebibyte(const struct card *card)
{
	uint8_t *memory = small_pages(MIB + PAGE);
	prove(card->pd, memory, MIB, LOCAL_WRITE | REMOTE_WRITE | REMOTE_READ);
	prove(card->pd, memory + 77, MIB, LOCAL_WRITE);
	munmap(memory, MIB + PAGE);
}

static void case_256_mebibytes(const struct card *card)
{
	/* Just below, at and above where the driver changes its way. */
	const size_t size = 256 * MIB, lengths[] = {size - PAGE, size, size + PAGE};
	if (!fits(size)) {
		say_failed("find 320 MiB of free memory", ENOMEM);
		return;
	}
	uint8_t *memory = small_pages(size + PAGE);
	for (size_t i = 0; i < COUNT(lengths); i++)
		prove(card->pd, memory, lengths[i], LOCAL_WRITE | REMOTE_READ);
	munmap(memory, size + PAGE);
}

/* In whole huge pages, in part of one, and across two. */
static void prove_in_huge_pages(const struct card *card, uint8_t *memory, size_t length, bool huge)
{
	const struct {
		size_t offset, length;
	} ranges[] = {
		{0, HUGE_PAGE},		 {0, length},
		{12345, 54321},		 {HUGE_PAGE - 5, 10},
		{PAGE, length - 2 * PAGE}, {3 * PAGE + 7, HUGE_PAGE},
	};
	for (size_t i = 0; i < COUNT(ranges); i++) {
		struct region region;
		enroll(&region, card->pd, memory + ranges[i].offset, ranges[i].length,
		       LOCAL_WRITE | REMOTE_WRITE);
		if (huge)
			region.page = HUGE_PAGE;
		show(&region, 1);
		withdraw(&region, 1);
	}
}

static void case_huge_pages(const struct card *card)
{
	const size_t length = 4 * HUGE_PAGE;
	long before = read_number(POOL);
	if (!want_huge_pages(8)) {
		say_failed("make 8 huge pages", ENOMEM);
		return;
	}
	uint8_t *memory = map(length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1);
	touch(memory, length);
	prove_in_huge_pages(card, memory, length,
			    smaps_field(memory, "KernelPageSize") == HUGE_PAGE);
	munmap(memory, length);

	int file = memfd_create("huge", MFD_CLOEXEC | MFD_HUGETLB);
	if (file < 0 || ftruncate(file, length))
		give_up("memfd_create");
	memory = map(length, PROT_READ | PROT_WRITE, MAP_SHARED, file);
	touch(memory, length);
	prove_in_huge_pages(card, memory, length,
			    smaps_field(memory, "KernelPageSize") == HUGE_PAGE);
	munmap(memory, length);
	close(file);

	char text[32];
	snprintf(text, sizeof text, "%ld", before);
	write_text(POOL, text);
}

static void case_transparent_huge_pages(const struct card *card)
{
	const size_t length = 4 * HUGE_PAGE;
	/* Whoever says "never" can be asked for less, but only here. */
	write_text("/sys/kernel/mm/transparent_hugepage/enabled", "madvise");
	uint8_t *whole = map(length + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	uint8_t *memory = (uint8_t *)ROUND_UP((uintptr_t)whole, HUGE_PAGE);
	bool huge = madvise(memory, length, MADV_HUGEPAGE) == 0;
	touch(memory, length);
	huge = huge && smaps_field(memory, "AnonHugePages") >= length;
	if (!huge)
		note("no transparent huge pages to be had: these are small pages");
	prove_in_huge_pages(card, memory, length, huge);
	munmap(whole, length + HUGE_PAGE);
}

static void case_read_only(const struct card *card)
{
	const size_t length = 8 * PAGE;
	int file = memfd_create("read-only", MFD_CLOEXEC);
	if (file < 0 || ftruncate(file, length))
		give_up("memfd_create");
	uint8_t *writable = map(length, PROT_READ | PROT_WRITE, MAP_SHARED, file);
	touch(writable, length);
	munmap(writable, length);
	uint8_t *of_file = map(length, PROT_READ, MAP_SHARED, file);
	uint8_t *of_process = small_pages(length);
	if (mprotect(of_process, length, PROT_READ))
		give_up("mprotect");

	uint8_t *const both[] = {of_file, of_process};
	for (size_t i = 0; i < COUNT(both); i++) {
		/* Before 6.2 the kernel pinned all memory as if to write it (ib_umem_get), which a shared
		 * mapping that may only be read does not permit. */
		if (both[i] == of_file && kernel_before(6, 2)) {
			const char *call = "ibv_reg_mr of a shared mapping, to read, before 6.2";
			refuse(call, card->pd, both[i], length, 0, ERRNOS(EFAULT));
			refuse(call, card->pd, both[i] + 100, length - 200, REMOTE_READ, ERRNOS(EFAULT));
		} else {
			prove(card->pd, both[i], length, 0);
			prove(card->pd, both[i] + 100, length - 200, REMOTE_READ);
		}
		const int writing[] = {LOCAL_WRITE, LOCAL_WRITE | REMOTE_WRITE, LOCAL_WRITE | REMOTE_ATOMIC,
				       MW_BIND};
		for (size_t j = 0; j < COUNT(writing); j++)
			refuse("ibv_reg_mr of read-only memory, to write", card->pd, both[i], length,
			       writing[j], ERRNOS(EFAULT));
	}
	munmap(of_file, length);
	munmap(of_process, length);
	close(file);
}

static void case_shared_memory(const struct card *card)
{
	const size_t length = 16 * PAGE;
	uint8_t *memory = map(length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1);
	touch(memory, length);
	prove(card->pd, memory, length, LOCAL_WRITE | REMOTE_WRITE);
	prove(card->pd, memory + 5, length - 10, REMOTE_READ);
	munmap(memory, length);

	int segment = shmget(IPC_PRIVATE, length, IPC_CREAT | 0600);
	memory = segment < 0 ? (void *)-1 : shmat(segment, NULL, 0);
	if (memory == (void *)-1)
		give_up("shared memory");
	shmctl(segment, IPC_RMID, NULL);
	touch(memory, length);
	prove(card->pd, memory, length, LOCAL_WRITE | REMOTE_READ);
	shmdt(memory);
}

static void case_memory_file(const struct card *card)
{
	const size_t length = 16 * PAGE;
	int file = memfd_create("proof", MFD_CLOEXEC);
	if (file < 0 || ftruncate(file, length))
		give_up("memfd_create");
	/* The same frames at two addresses, and from the middle of the file. */
	struct region regions[3];
	uint8_t *first = map(length, PROT_READ | PROT_WRITE, MAP_SHARED, file);
	uint8_t *second = map(length, PROT_READ | PROT_WRITE, MAP_SHARED, file);
	touch(first, length);
	enroll(&regions[0], card->pd, first, length, LOCAL_WRITE | REMOTE_WRITE);
	enroll(&regions[1], card->pd, second, length, REMOTE_READ);
	enroll(&regions[2], card->pd, second + 5 * PAGE + 1, 3 * PAGE, LOCAL_WRITE);
	show(regions, 3);
	withdraw(regions, 3);
	munmap(first, length);
	munmap(second, length);
	close(file);
}

static void case_unmapped_memory(const struct card *card)
{
	const size_t length = 9 * PAGE;
	uint8_t *memory = small_pages(length);
	munmap(memory + 4 * PAGE, PAGE);
	const int rights[] = {LOCAL_WRITE, REMOTE_READ, 0};
	for (size_t i = 0; i < COUNT(rights); i++) {
		refuse("ibv_reg_mr across a hole", card->pd, memory, length, rights[i], ERRNOS(EFAULT));
		refuse("ibv_reg_mr from a hole on", card->pd, memory + 4 * PAGE, 2 * PAGE, rights[i],
		       ERRNOS(EFAULT));
		refuse("ibv_reg_mr into a hole", card->pd, memory + 3 * PAGE, PAGE + 1, rights[i],
		       ERRNOS(EFAULT));
	}
	if (mprotect(memory + 2 * PAGE, PAGE, PROT_NONE))
		give_up("mprotect");
	refuse("ibv_reg_mr of memory without any right", card->pd, memory, 4 * PAGE, LOCAL_WRITE,
	       ERRNOS(EFAULT));
	refuse("ibv_reg_mr of the kernel's memory", card->pd, (void *)0xffff888000000000, PAGE,
	       LOCAL_WRITE, ERRNOS(EFAULT));
	refuse("ibv_reg_mr of address 0", card->pd, NULL, PAGE, LOCAL_WRITE, ERRNOS(EFAULT));
	refuse("ibv_reg_mr of nothing", card->pd, memory, 0, LOCAL_WRITE, ERRNOS(EINVAL));
	refuse("ibv_reg_mr beyond the last address", card->pd, memory, SIZE_MAX - PAGE, LOCAL_WRITE,
	       ERRNOS(EINVAL));
	/* What is beside the hole is as good as ever. */
	prove(card->pd, memory + 5 * PAGE, 4 * PAGE, LOCAL_WRITE);
	munmap(memory, 4 * PAGE);
	munmap(memory + 5 * PAGE, 4 * PAGE);
}
