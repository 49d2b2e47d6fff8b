/* read: --fields event,* */
#include "common.h"

KYMO_ENUM(other, state, s8, (down, -1), (up, 1))
KYMO_EVENT(other, names, (s8, a), (s16, b), (s32, c), (s64, d), (uint8_t, e), (int64_t, f), (float, g),
	   (double, h), (array(s16, 2), i), (seq(uint32_t), j), (array(bool, 1), k), (enum(other, state), l))

int main(void)
{
	static const int16_t two[] = { -1, 1 };
	static const uint32_t list[] = { 7 };
	static const bool yes[] = { true };

	kymo_trace(other, names, -1, -2, -3, -4, 5, -6, 0.5f, 0.25, two, list, 1, yes, -1);
	return 0;
}
