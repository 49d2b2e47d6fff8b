/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * runner.c: does what the test says on standard input, a line at a time, and answers each line when it is done:
 *	burst N		writes N further numbered records	-> done NEXT
 *	enabled		waits until a session wants them	-> enabled
 *	disabled	waits until none does			-> disabled
 *	exit N		ends
 * The end of the input is an end with status 0.
 */
#include "common.h"

KYMO_EVENT(runner, rec, (u64, n), (u64, check))

int main(void)
{
	char line[80];
	uint64_t n = 0;

	live_shortly();
	say("ready");
	while (fgets(line, sizeof(line), stdin)) {
		uint64_t argument = 0;
		char word[16] = "";

		sscanf(line, "%15s %" SCNu64, word, &argument);
		if (!strcmp(word, "burst")) {
			for (uint64_t end = n + argument; n < end; n++)
				kymo_trace(runner, rec, n, check_of(n, 7));
			printf("done %" PRIu64 "\n", n);
			fflush(stdout);
		} else if (!strcmp(word, "enabled")) {
			until_enabled(runner, rec);
			say("enabled");
		} else if (!strcmp(word, "disabled")) {
			until_disabled(runner, rec);
			say("disabled");
		} else if (!strcmp(word, "exit")) {
			return (int)argument;
		}
	}
	return 0;
}
