//! A run that Python watches: its progress, its signals, its end before time.

use std::time::{Duration, Instant};

use pyo3::prelude::*;
use txweir_core::Nanos;
use txweir_lab::stop::Stop;

use crate::error::{Wrong, guarded};

/// Time between two looks at signals, and two reports of progress.
pub const STEP: Duration = Duration::from_millis(50);

/// The side of a run that Python sees. It lives on the thread that called.
#[derive(Debug)]
pub struct Watch {
    progress: Option<Py<PyAny>>,
    stop: Stop,
    last: Instant,
    raised: Option<PyErr>,
}

impl Watch {
    /// Reports that `done` of `whole` of virtual time is over. A signal, or an exception of the
    /// function that is told, ends the run.
    pub fn at(&mut self, done: Nanos, whole: Nanos) {
        if self.raised.is_some() || (self.last.elapsed() < STEP && done < whole) {
            return;
        }
        self.last = Instant::now();
        let told = Python::attach(|py| {
            py.check_signals()?;
            match &self.progress {
                Some(progress) => progress.call1(py, (done.0, whole.0)).map(drop),
                None => Ok(()),
            }
        });
        if let Err(e) = told {
            self.raised = Some(e);
            self.stop.ask();
        }
    }
}

/// Does `work` without the interpreter, and reports its progress as `progress` asks: to a function
/// of the time that is over and all of it, in nanoseconds; or, if it is true, to a terminal or a
/// notebook, if there is one.
pub fn watched<T: Send>(
    py: Python<'_>,
    progress: &Bound<'_, PyAny>,
    work: impl FnOnce(&mut Watch, Stop) -> std::result::Result<T, Wrong> + Send,
) -> PyResult<T> {
    let display = py.import("txweir._progress")?.call_method1("shown", (progress,))?;
    let told = (!display.is_none()).then(|| display.clone().unbind());
    let stop = Stop::default();
    let mut watch = Watch { progress: told, stop: stop.clone(), last: Instant::now(), raised: None };
    let result = py.detach(|| guarded(|| work(&mut watch, stop)));
    if display.hasattr("end")? {
        display.call_method0("end")?;
    }
    match (watch.raised, result) {
        (Some(raised), _) => Err(raised),
        (None, Ok(Ok(done))) => Ok(done),
        (None, Ok(Err(wrong)) | Err(wrong)) => Err(wrong.raised(py)),
    }
}
