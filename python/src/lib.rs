// SPDX-License-Identifier: MIT OR Apache-2.0
//! The native part of the Python package `kymotrace` [docs/python.md]: opens traces, and hands their tables over as
//! Arrow streams, which pyarrow, polars, pandas and DuckDB take without a copy (the PyCapsule interface).
//!
//! What is in a table is for kymo-tables. What is said of results, and how it is shown, is for the Python modules beside
//! this crate.

mod compare;
mod process;
mod source;
mod stream;
mod wait;

use pyo3::prelude::*;

pyo3::create_exception!(
    kymotrace,
    KymoError,
    pyo3::exceptions::PyException,
    "A trace cannot be opened, a table not read, or a command of kymo failed."
);

/// The native part of kymotrace.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("KymoError", module.py().get_type::<KymoError>())?;
    module.add_class::<source::Source>()?;
    module.add_class::<stream::ArrowStream>()?;
    module.add_function(wrap_pyfunction!(source::find_traces, module)?)?;
    module.add_function(wrap_pyfunction!(process::run_arrow, module)?)?;
    module.add_function(wrap_pyfunction!(compare::compare, module)?)?;
    module.add_function(wrap_pyfunction!(compare::result_record, module)?)?;
    Ok(())
}
