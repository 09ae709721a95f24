/* The talk with the judge on the host: a line of JSON from here, one word back.
 *
 * The judge asks the card about what a line says before he answers, so every line waits. */

enum answer { GO, AGAIN };

static enum answer listen_to_judge(void)
{
	char word[16];
	size_t length = 0;
	/* Byte by byte: a child reads on where its parent stopped. */
	while (length < sizeof word && read(0, word + length, 1) == 1)
		if (word[length++] == '\n')
			break;
	if (length == 3 && !memcmp(word, "go\n", 3))
		return GO;
	if (length == 6 && !memcmp(word, "again\n", 6))
		return AGAIN;
	/* "stop", or nobody is there. */
	_exit(3);
}

static enum answer end_line(void)
{
	fputs("}\n", stdout);
	fflush(stdout);
	return listen_to_judge();
}

/* Says one short thing: what it is and the rest of the object. */
__attribute__((format(printf, 2, 3))) static enum answer say(const char *what, const char *rest, ...)
{
	va_list arguments;
	printf("{\"say\":\"%s\"", what);
	va_start(arguments, rest);
	vprintf(rest, arguments);
	va_end(arguments);
	return end_line();
}

static void note(const char *text)
{
	say("note", ",\"text\":\"%s\"", text);
}

/* Something did not work that must. */
static void say_failed(const char *call, int error)
{
	say("failed", ",\"call\":\"%s\",\"errno\":%d", call, error);
}

/* Before a call that must fail: the judge looks at what the card has done so far. */
static void mark(void)
{
	say("mark", "%s", "");
}

#define ERRNOS(...) ((const int[]){__VA_ARGS__, 0})

/* After it. True when it must be tried again: the card was busy with something else meanwhile. */
static bool refused(const char *call, int error, const int *expected)
{
	printf("{\"say\":\"refused\",\"call\":\"%s\",\"errno\":%d,\"expected\":[", call, error);
	for (const int *one = expected; *one; one++)
		printf("%s%d", one == expected ? "" : ",", *one);
	putchar(']');
	return end_line() == AGAIN;
}
