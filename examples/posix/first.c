/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A first stream: record three events, and read them in the same process. */
#include <stdio.h>
#include <string.h>
#include <trace.h>

int main(void)
{
	struct posix_trace_event_info info;
	trace_event_id_t step;
	trace_id_t stream;
	int data, unavailable;
	size_t bytes;

	if (posix_trace_create(0, NULL, &stream) || posix_trace_eventid_open("step", &step) ||
	    posix_trace_start(stream))
		return 1;
	for (int i = 1; i <= 3; i++)
		posix_trace_event(step, &i, sizeof(i));
	posix_trace_stop(stream);
	while (!posix_trace_trygetnext_event(stream, &info, &data, sizeof(data), &bytes, &unavailable) &&
	       !unavailable) {
		char name[TRACE_EVENT_NAME_MAX + 1];

		posix_trace_eventid_get_name(stream, info.posix_event_id, name);
		printf("%s", name);
		if (info.posix_event_id == step)
			printf(" %d", data);
		printf("\n");
	}
	return posix_trace_shutdown(stream);
}
