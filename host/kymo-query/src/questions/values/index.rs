// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values of a field from the index, where bins are on a grid [spec/index.md 4.1]: no record is read.

use kymo_index::{DamagedFields, ValueSums};

use crate::opened::Opened;
use crate::pixels::Pixels;

/// Values of each bin. `None`: the index does not have them, or not in columns that are as short as bins.
///
/// # Errors
/// They are damaged.
pub(crate) fn indexed(of: &Opened, bins: &Pixels, field: &str) -> Result<Option<Vec<ValueSums>>, DamagedFields> {
    let whole = of.indexes.whole();
    let (Some([index]), Some(shift)) = (whole.as_deref(), bins.shift()) else { return Ok(None) };
    // A context may have any name.
    let name = field.rsplit_once('.').filter(|_| !field.contains(".$"));
    let times = name.and_then(|(event, field)| index.field_times(event, field));
    let Some(times) = times.filter(|times| times.shift <= shift && !bins.window().is_empty()) else { return Ok(None) };
    let mut values = vec![ValueSums::default(); bins.count() as usize];
    index.field_values(&times, |number, sums| {
        if let Some(bin) = bins.of_column(number << times.shift) {
            values[bin as usize].append(sums);
        }
    })?;
    Ok(Some(values))
}
