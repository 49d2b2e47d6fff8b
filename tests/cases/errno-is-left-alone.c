/* read: --fields n,text */
#include "common.h"

KYMO_EVENT(errno_, kept, (i32, n), (str, text))

static void *thread(void *unused)
{
	/* A thread's first record does more than the later ones. */
	errno = 71;
	kymo_trace(errno_, kept, errno, "first of a thread");
	kymo_trace(errno_, kept, errno, "second");
	return unused;
}

int main(void)
{
	pthread_t other;

	errno = 70;
	kymo_trace(errno_, kept, errno, "main");
	kymo_trace(errno_, kept, errno, "main again");
	pthread_create(&other, NULL, thread, NULL);
	pthread_join(other, NULL);
	return 0;
}
