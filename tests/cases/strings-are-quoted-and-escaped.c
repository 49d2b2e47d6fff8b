/* read: --fields text */
#include "common.h"

KYMO_EVENT(strings, one, (str, text))

int main(void)
{
	kymo_trace(strings, one, "");
	kymo_trace(strings, one, "plain");
	kymo_trace(strings, one, "grüße 🥁");
	kymo_trace(strings, one, "\"quoted\" \\ \t\n\r");
	kymo_trace(strings, one, "\033[31mred\a");
	kymo_trace(strings, one, NULL);
	return 0;
}
