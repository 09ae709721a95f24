/* Registrations, and what the judge is told about them. */

enum {
	LOCAL_WRITE = IBV_ACCESS_LOCAL_WRITE,
	REMOTE_WRITE = IBV_ACCESS_REMOTE_WRITE,
	REMOTE_READ = IBV_ACCESS_REMOTE_READ,
	REMOTE_ATOMIC = IBV_ACCESS_REMOTE_ATOMIC,
	MW_BIND = IBV_ACCESS_MW_BIND,
	EVERY_RIGHT = LOCAL_WRITE | REMOTE_WRITE | REMOTE_READ | REMOTE_ATOMIC | MW_BIND,
};

/* What the cases work with. */
struct card {
	const char *name;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_pd *other_pd;
};

static struct card open_card(const char *name)
{
	struct card card = {.name = name, .context = open_device(name)};
	card.pd = ibv_alloc_pd(card.context);
	card.other_pd = ibv_alloc_pd(card.context);
	if (!card.pd || !card.other_pd)
		give_up("ibv_alloc_pd");
	return card;
}

static void close_card(struct card *card)
{
	if (ibv_dealloc_pd(card->other_pd) || ibv_dealloc_pd(card->pd))
		give_up("ibv_dealloc_pd");
	if (ibv_close_device(card->context))
		give_up("ibv_close_device");
}

struct region {
	unsigned id;
	uint8_t *address;
	size_t length;
	uint64_t iova; /* first address in the key's address space */
	int access;
	struct ibv_pd *pd;
	uint64_t page; /* size of the pages behind it */
	struct ibv_mr *mr;
	int error; /* why there is no `mr` */
};

static atomic_uint next_id = 1;

/* The number that the card knows a protection domain by; -1 where the provider does not tell. */
static long domain_number(struct ibv_pd *pd)
{
	static int (*init_obj)(struct mlx5dv_obj *, uint64_t);
	static bool looked;
	if (!looked) {
		/* The provider is loaded already, under this very file. */
		void *library = dlopen("libmlx5.so.1", RTLD_NOW | RTLD_NOLOAD);
		*(void **)&init_obj = library ? dlsym(library, "mlx5dv_init_obj") : NULL;
		looked = true;
	}
	struct mlx5dv_pd known = {0};
	struct mlx5dv_obj object = {.pd = {.in = pd, .out = &known}};
	if (!init_obj || init_obj(&object, MLX5DV_OBJ_PD))
		return -1;
	return known.pdn;
}

/* The plain functions, not the macros that choose between them. */
static struct ibv_mr *call_reg_mr(struct ibv_pd *pd, void *address, size_t length, uint64_t iova,
				  int access)
{
	if (access & IBV_ACCESS_OPTIONAL_RANGE)
		return ibv_reg_mr_iova2(pd, address, length, iova, access);
	if (iova == (uintptr_t)address)
		return (ibv_reg_mr)(pd, address, length, access);
	return (ibv_reg_mr_iova)(pd, address, length, iova, access);
}

static void enroll_at(struct region *region, struct ibv_pd *pd, uint8_t *address, size_t length,
		      uint64_t iova, int access)
{
	*region = (struct region){
		.id = atomic_fetch_add(&next_id, 1),
		.address = address,
		.length = length,
		.iova = iova,
		.access = access,
		.pd = pd,
		.page = PAGE,
	};
	errno = 0;
	region->mr = call_reg_mr(pd, address, length, iova, access);
	region->error = region->mr ? 0 : errno;
}

static void enroll(struct region *region, struct ibv_pd *pd, uint8_t *address, size_t length,
		   int access)
{
	enroll_at(region, pd, address, length, (uintptr_t)address, access);
}

static void print_region(const struct region *region)
{
	long domain = domain_number(region->pd);
	printf("{\"id\":%u,\"address\":\"%#lx\",\"length\":%zu,\"iova\":\"0x%llx\",\"access\":%d,"
	       "\"lkey\":\"0x%x\",\"rkey\":\"0x%x\",\"page\":%llu,",
	       region->id, (unsigned long)(uintptr_t)region->address, region->length,
	       (unsigned long long)region->iova, region->access, region->mr->lkey, region->mr->rkey,
	       (unsigned long long)region->page);
	if (domain >= 0)
		printf("\"domain\":%ld,", domain);
	fputs("\"frames\":", stdout);
	print_frames(region->address, region->length);
	putchar('}');
}

/* Shows registrations to the judge, while they last. */
static void show_as(const struct region *regions, size_t count, const char *more)
{
	for (size_t i = 0; i < count; i++)
		if (!regions[i].mr)
			say_failed("ibv_reg_mr", regions[i].error);
	for (size_t i = 0; i < count;) {
		const char *comma = "";
		printf("{\"say\":\"registered\"%s,\"regions\":[", more);
		/* Lines of moderate length. */
		for (size_t end = i + 256; i < count && i < end; i++) {
			if (!regions[i].mr)
				continue;
			fputs(comma, stdout);
			print_region(&regions[i]);
			comma = ",";
		}
		putchar(']');
		end_line();
	}
}

static void show(const struct region *regions, size_t count)
{
	show_as(regions, count, "");
}

static void drop(struct region *region)
{
	int error = region->mr ? ibv_dereg_mr(region->mr) : 0;
	if (error)
		say_failed("ibv_dereg_mr", error);
	region->mr = NULL;
}

/* Tells the judge that these keys are gone. */
static void show_gone(const struct region *regions, size_t count)
{
	printf("{\"say\":\"deregistered\",\"ids\":[");
	const char *comma = "";
	for (size_t i = 0; i < count; i++) {
		if (regions[i].error)
			continue;
		printf("%s%u", comma, regions[i].id);
		comma = ",";
	}
	putchar(']');
	end_line();
}

static void withdraw(struct region *regions, size_t count)
{
	for (size_t i = 0; i < count; i++)
		drop(&regions[i]);
	show_gone(regions, count);
}

/* Registers, shows and deregisters one range. */
static void prove(struct ibv_pd *pd, uint8_t *address, size_t length, int access)
{
	struct region region;
	enroll(&region, pd, address, length, access);
	show(&region, 1);
	withdraw(&region, 1);
}

/* A registration that must fail, before the card hears of it. */
static void refuse_at(const char *what, struct ibv_pd *pd, void *address, size_t length,
		      uint64_t iova, int access, const int *expected)
{
	int error;
	do {
		mark();
		errno = 0;
		struct ibv_mr *mr = call_reg_mr(pd, address, length, iova, access);
		error = mr ? 0 : errno;
		if (mr)
			ibv_dereg_mr(mr);
	} while (refused(what, error, expected));
}

static void refuse(const char *what, struct ibv_pd *pd, void *address, size_t length, int access,
		   const int *expected)
{
	refuse_at(what, pd, address, length, (uintptr_t)address, access, expected);
}
