/* read: --fields event,* */
#include "common.h"

KYMO_EVENT(bases, all, (u8, small), (i64, negative), (x16, port), (x64, address),
	   (array(x8, 3), bytes), (seq(i32), list))

int main(void)
{
	static const uint8_t bytes[] = { 0, 10, 255 };
	static const int32_t list[] = { -1, 0, 1 };

	kymo_trace(bases, all, 255, INT64_MIN, 0xbeef, 0xffff800000000000, bytes, list, 3);
	kymo_trace(bases, all, 0, 0, 0, 0, bytes, list, 0);
	return 0;
}
