/* read: --fields event,* */
#include "common.h"

KYMO_ENUM(door, state, u8, (open, 1), (closed, 2), (locked, 200))
KYMO_EVENT(door, moved, (enum(door, state), from), (enum(door, state), to), (bool, by_hand))

int main(void)
{
	kymo_trace(door, moved, 1, 2, true);
	kymo_trace(door, moved, 2, 200, false);
	kymo_trace(door, moved, 200, 77, false);
	return 0;
}
