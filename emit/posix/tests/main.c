/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * main.c: runs tests, each in a process of its own and in a directory of its own. Arguments: names
 * of tests; --list: the table of all of them. Last line: N passed, N failed.
 */
#define _GNU_SOURCE
#include "test.h"

#include <ftw.h>
#include <libgen.h>
#include <signal.h>

static struct test *first;
static unsigned skipped; /* they count as passed, too, and are named */

/* Sorted by page, then as they stand in their file. */
void test_add(struct test *test)
{
	struct test **at = &first;

	while (*at && (strcmp((*at)->page, test->page) < 0 ||
		       (!strcmp((*at)->page, test->page) && strcmp((*at)->name, test->name) < 0)))
		at = &(*at)->next;
	test->next = *at;
	*at = test;
}

static int list(void)
{
	printf("# Conformance of POSIX Trace\n\n"
	       "Sentences of IEEE 1003.1-2017 in our words, and the test that holds each (`emit/posix/tests`). "
	       "Made by\n`conformance --list`; `emit/posix/tests/run.sh` checks that it is what the tests say. "
	       "What the standard leaves open is\nin posix.md 8.\n\n| page | sentence | test |\n|---|---|---|\n");
	for (struct test *test = first; test; test = test->next)
		printf("| %s | %s | %s `%s` |\n", test->page, test->sentence,
		       strrchr(test->file, '/') ? strrchr(test->file, '/') + 1 : test->file,
		       test->name);
	return 0;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where)
{
	(void)info;
	(void)kind;
	(void)where;
	return remove(path);
}

static bool run(struct test *test)
{
	char dir[] = "/tmp/kymo-posix-test-XXXXXX";
	int status;
	pid_t child;

	EXPECT(mkdtemp(dir));
	fflush(stdout);
	child = fork();
	if (!child) {
		EXPECT(!chdir(dir));
		alarm(300);
		/* A directory for streams, too. The library has it from the environment at the start. */
		test->run();
		exit(0);
	}
	EXPECT(waitpid(child, &status, 0) == child);
	nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	if (WIFEXITED(status) && !WEXITSTATUS(status))
		return true;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
		printf("SKIPPED %s: see above\n", test->name);
		skipped++;
		return true;
	}
	printf("FAILED %s: %s (%s %d)\n", test->name, test->sentence,
	       WIFEXITED(status) ? "exit" : "signal",
	       WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
	return false;
}

static bool is_chosen(const struct test *test, int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], test->name))
			return true;
	return argc == 1;
}

int main(int argc, char **argv)
{
	unsigned passed = 0, failed = 0;

	if (argc == 2 && !strcmp(argv[1], "--list"))
		return list();
#if KYMO_POSIX_USER_EVENTS
	/* The second program of a test of exec. */
	if (argc == 3 && !strcmp(argv[1], "--again")) {
		emit_number(event_named("after"), 2);
		return 0;
	}
#endif
	for (struct test *test = first; test; test = test->next) {
		if (!is_chosen(test, argc, argv))
			continue;
		if (run(test))
			passed++;
		else
			failed++;
	}
	if (skipped)
		printf("%u of the tests were skipped\n", skipped);
	printf("%u passed, %u failed\n", passed - skipped, failed);
	return failed || !passed;
}
