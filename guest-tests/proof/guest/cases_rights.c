/* Cases: rights, addresses in the key's own space, protection domains. */

static void case_access_flags(const struct card *card)
{
	static const int bits[] = {LOCAL_WRITE,	 REMOTE_WRITE, REMOTE_READ, REMOTE_ATOMIC,
				   MW_BIND, IBV_ACCESS_ZERO_BASED, IBV_ACCESS_RELAXED_ORDERING};
	uint8_t *memory = small_pages(4 * PAGE);
	struct region legal[1 << COUNT(bits)];
	size_t count = 0;
	for (unsigned set = 0; set < 1 << COUNT(bits); set++) {
		int access = 0;
		for (size_t bit = 0; bit < COUNT(bits); bit++)
			access |= set >> bit & 1 ? bits[bit] : 0;
		if (access & (REMOTE_WRITE | REMOTE_ATOMIC) && !(access & LOCAL_WRITE))
			refuse("ibv_reg_mr with a remote right to write and no local one", card->pd, memory,
			       2 * PAGE, access, ERRNOS(EINVAL));
		else
			enroll(&legal[count++], card->pd, memory + 10, 2 * PAGE, access);
	}
	show(legal, count);
	withdraw(legal, count);

	/* A hint for on-demand paging, and optional flags that nobody knows yet: no obstacle. */
	enroll(&legal[0], card->pd, memory, PAGE, LOCAL_WRITE | IBV_ACCESS_HUGETLB);
	enroll(&legal[1], card->pd, memory, PAGE, LOCAL_WRITE | 1 << 21);
	enroll(&legal[2], card->pd, memory, PAGE, REMOTE_READ | 1 << 29);
	show(legal, 3);
	withdraw(legal, 3);

	const int unknown[] = {1 << 10, 1 << 15, 1 << 19, 1 << 30, (int)(1u << 31)};
	for (size_t i = 0; i < COUNT(unknown); i++)
		refuse("ibv_reg_mr with a flag that does not exist", card->pd, memory, PAGE,
		       LOCAL_WRITE | unknown[i], ERRNOS(EINVAL));
	/* Flushing (of global visibility 1 << 8, of persistence 1 << 9): older kernels don't know it. */
	for (int flag = 1 << 8; flag <= 1 << 9; flag <<= 1)
		refuse("ibv_reg_mr with a flush right", card->pd, memory, PAGE, LOCAL_WRITE | flag,
		       ERRNOS(EOPNOTSUPP, EINVAL));
	struct ibv_device_attr_ex device = {0};
	if (ibv_query_device_ex(card->context, NULL, &device))
		give_up("ibv_query_device_ex");
	if (device.odp_caps.general_caps & IBV_ODP_SUPPORT)
		note("the device offers on-demand paging, which has no frames to compare");
	else
		refuse("ibv_reg_mr on demand, which the device does not offer", card->pd, memory, PAGE,
		       LOCAL_WRITE | IBV_ACCESS_ON_DEMAND, ERRNOS(EOPNOTSUPP, EINVAL));
	munmap(memory, 4 * PAGE);
}

static void case_zero_based(const struct card *card)
{
	const size_t length = 4 * HUGE_PAGE;
	uint8_t *memory = small_pages(length);
	struct region regions[16];
	size_t count = 0;
	const int access = LOCAL_WRITE | REMOTE_READ | REMOTE_WRITE;
	const size_t offsets[] = {0, 5, PAGE - 1};
	for (size_t i = 0; i < COUNT(offsets); i++) {
		size_t offset = offsets[i];
		enroll_at(&regions[count++], card->pd, memory + offset, 5 * PAGE, offset, access);
		enroll_at(&regions[count++], card->pd, memory + offset, PAGE + 1,
			  0x123456789000 + offset, access | IBV_ACCESS_ZERO_BASED);
		enroll_at(&regions[count++], card->pd, memory + offset, length / 2,
			  0xffff800000000000 + offset, access);
	}
	/* Up to one page below the last address. */
	enroll_at(&regions[count++], card->pd, memory, 3 * PAGE, -4 * PAGE, access);
	show(regions, count);
	withdraw(regions, count);
	for (size_t i = 1; i < COUNT(offsets); i++)
		refuse_at("ibv_reg_mr_iova at another offset within the page", card->pd,
			  memory + offsets[i], PAGE, offsets[i] - 1, access, ERRNOS(EINVAL));
	munmap(memory, length);
}

static void case_protection_domains(const struct card *card)
{
	uint8_t *memory = small_pages(4 * PAGE);
	/* A second context: its domains are its own, though the card is one. */
	struct card other = open_card(card->name);
	struct region regions[4];
	enroll(&regions[0], card->pd, memory, PAGE, LOCAL_WRITE);
	enroll(&regions[1], card->other_pd, memory, PAGE, LOCAL_WRITE);
	enroll(&regions[2], other.pd, memory, PAGE, LOCAL_WRITE);
	enroll(&regions[3], other.other_pd, memory, PAGE, LOCAL_WRITE);
	show(regions, 4);

	while (mark(), refused("ibv_dealloc_pd with a registration in it", ibv_dealloc_pd(card->pd),
			       ERRNOS(EBUSY)))
		;
	/* A domain of the other context, as if it were of this one, and one that is gone. */
	struct ibv_pd *more[4];
	for (size_t i = 0; i < COUNT(more); i++)
		if (!(more[i] = ibv_alloc_pd(other.context)))
			give_up("ibv_alloc_pd");
	struct ibv_pd foreign = *more[COUNT(more) - 1];
	struct ibv_pd gone = *more[0];
	foreign.context = card->context;
	foreign.handle += 100;
	for (size_t i = 0; i < COUNT(more); i++)
		ibv_dealloc_pd(more[i]);
	refuse("ibv_reg_mr in a domain that this context has not", &foreign, memory, PAGE, LOCAL_WRITE,
	       ERRNOS(EINVAL, ENOENT));
	refuse("ibv_reg_mr in a domain that is gone", &gone, memory, PAGE, LOCAL_WRITE,
	       ERRNOS(EINVAL, ENOENT));
	/* The handle of something else. */
	struct ibv_pd wrong = *card->pd;
	wrong.handle = regions[0].mr ? regions[0].mr->handle : 12345;
	refuse("ibv_reg_mr in a domain that is a registration", &wrong, memory, PAGE, LOCAL_WRITE,
	       ERRNOS(EINVAL, ENOENT));

	show(regions, 4);
	withdraw(regions, 4);
	close_card(&other);
	munmap(memory, 4 * PAGE);
}
