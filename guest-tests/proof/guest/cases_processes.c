/* Cases: more than one process, and one that may not do everything. */

/* Ids that a child may use: its parent does not see how many it takes. */
enum { CHILD_IDS = 1000 };

struct child {
	const struct card *card;
	uint8_t *memory; /* the parent's, so the child's own copy */
	size_t length;
	unsigned first_id;
};

static void in_child(struct child *child, void (*run)(struct child *))
{
	child->first_id = atomic_fetch_add(&next_id, CHILD_IDS);
	pid_t pid = fork();
	if (pid < 0)
		give_up("fork");
	if (pid == 0) {
		atomic_store(&next_id, child->first_id);
		run(child);
		_exit(0);
	}
	/* The parent goes on as well. */
	touch(child->memory, child->length);
	int status;
	if (waitpid(pid, &status, 0) != pid || status)
		say_failed("a child process", status ? ECHILD : errno);
}

static void only_touch(struct child *child)
{
	touch(child->memory, child->length);
}

static void register_in_child(struct child *child)
{
	open_pagemap();
	struct card card = open_card(child->card->name);
	struct region regions[2];
	uint8_t *own = small_pages(5 * PAGE);
	touch(child->memory, child->length);
	enroll(&regions[0], card.pd, own + 3, 4 * PAGE, LOCAL_WRITE);
	enroll(&regions[1], card.other_pd, child->memory, child->length, REMOTE_READ);
	show(regions, 2);
	withdraw(regions, 2);
	close_card(&card);
}

static void die_with_keys(struct child *child)
{
	open_pagemap();
	struct card card = open_card(child->card->name);
	struct region regions[2];
	enroll(&regions[0], card.pd, child->memory, PAGE, LOCAL_WRITE);
	enroll(&regions[1], card.pd, child->memory + PAGE, PAGE, LOCAL_WRITE);
	show(regions, 2);
}

static void case_fork(const struct card *card)
{
	struct child child = {.card = card, .length = 16 * PAGE};
	child.memory = small_pages(child.length);
	struct region region;
	enroll(&region, card->pd, child.memory, child.length, LOCAL_WRITE | REMOTE_READ);
	show(&region, 1);
	/* What is registered stays with the parent: the child gets copies. */
	in_child(&child, only_touch);
	show(&region, 1);
	in_child(&child, register_in_child);
	show(&region, 1);

	in_child(&child, die_with_keys);
	const struct region left[2] = {{.id = child.first_id}, {.id = child.first_id + 1}};
	show_gone(left, 2);
	show(&region, 1);
	withdraw(&region, 1);
	munmap(child.memory, child.length);
}

static void beyond_the_limit(struct child *child)
{
	/* Both are opened with root's rights and used without. */
	open_pagemap();
	struct card card = open_card(child->card->name);
	uint8_t *memory = small_pages(2 * MIB);
	struct region region;
	const struct rlimit limit = {MIB, MIB};
	const char *what = "ibv_reg_mr beyond RLIMIT_MEMLOCK";
	if (setrlimit(RLIMIT_MEMLOCK, &limit) || setgid(65534) || setuid(65534))
		give_up("become nobody");

	refuse(what, card.pd, memory, MIB + 1, LOCAL_WRITE, ERRNOS(ENOMEM));
	refuse(what, card.pd, memory, 2 * MIB, REMOTE_READ, ERRNOS(ENOMEM));
	enroll(&region, card.pd, memory, MIB, LOCAL_WRITE);
	show(&region, 1);
	/* Nothing is left of it. */
	refuse(what, card.pd, memory + MIB, 1, LOCAL_WRITE, ERRNOS(ENOMEM));
	withdraw(&region, 1);
	/* Those that failed have taken nothing. */
	prove(card.pd, memory + MIB, MIB, LOCAL_WRITE);
	close_card(&card);
}

static void case_locked_memory(const struct card *card)
{
	struct child child = {.card = card, .length = PAGE};
	child.memory = small_pages(PAGE);
	in_child(&child, beyond_the_limit);
	munmap(child.memory, PAGE);
}
