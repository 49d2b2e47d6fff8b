/* read: --fields event,* */
#include "common.h"

KYMO_EVENT(numbers, all, (u8, of_u8), (u16, of_u16), (u32, of_u32), (u64, of_u64), (i8, of_i8), (i16, of_i16),
	   (i32, of_i32), (i64, of_i64), (x8, of_x8), (x16, of_x16), (x32, of_x32), (x64, of_x64),
	   (f32, of_f32), (f64, of_f64), (bool, of_bool), (o32, of_o32))

int main(void)
{
	kymo_trace(numbers, all, 255, 65535, 4294967295, UINT64_MAX, -128, -32768, INT32_MIN, INT64_MIN, 0xfe, 0xfedc,
		   0xfedcba98, 0xfedcba9876543210, 0.5f, 0.25, true, 0100644);
	kymo_trace(numbers, all, 0, 0, 0, 0, 127, 32767, INT32_MAX, INT64_MAX, 0, 0,
		   0, 0, -2.0f, -4.0, false, 0);
	return 0;
}
