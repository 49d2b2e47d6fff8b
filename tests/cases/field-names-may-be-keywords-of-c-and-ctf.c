/* read: --fields event,* */
#include "common.h"

KYMO_EVENT(struct_, event, (u8, clock), (u8, stream), (u8, variant), (str, string),
	   (seq(u8), _length), (u8, id), (u8, align), (u8, env))

int main(void)
{
	static const uint8_t list[] = { 7, 8 };

	kymo_trace(struct_, event, 1, 2, 3, "s", list, 2, 4, 5, 6);
	return 0;
}
