// SPDX-License-Identifier: MIT OR Apache-2.0
//! The native part of the Python package `kymotrace` [spec/python.md]: opens traces, and hands their tables over as
//! Arrow streams, which pyarrow, polars, pandas and DuckDB take without a copy (the PyCapsule interface).
//!
//! What is in a table is for kymo-tables. How results are shown, and all else, is for the Python modules beside this
//! crate.

mod compare;
mod error;
mod process;
mod source;
mod stream;
mod wait;

use pyo3::prelude::*;

/// The native part of kymotrace.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("KymoError", module.py().get_type::<error::KymoError>())?;
    module.add_class::<source::Source>()?;
    module.add_class::<stream::ArrowStream>()?;
    module.add_function(wrap_pyfunction!(source::find_traces, module)?)?;
    module.add_function(wrap_pyfunction!(process::run_arrow, module)?)?;
    module.add_function(wrap_pyfunction!(compare::compare, module)?)?;
    module.add_function(wrap_pyfunction!(compare::result_record, module)?)?;
    Ok(())
}
