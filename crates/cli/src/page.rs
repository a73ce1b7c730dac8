//! The file of a page with charts.

use std::fs::{self, OpenOptions};
use std::path::Path;

use crate::Failure;

/// A file that takes a page after a long run.
pub struct Kept<'a>(&'a Path);

impl<'a> Kept<'a> {
    /// Refuses a wrong path before the run. The file keeps its text until the page is written.
    pub fn open(path: &'a Path) -> Result<Self, Failure> {
        let opened = OpenOptions::new().append(true).create(true).open(path);
        opened.map_err(|e| Failure::usage(format!("--html {}: {e}", path.display())))?;
        Ok(Self(path))
    }

    /// Writes the page of a report in JSON.
    pub fn write(&self, report_json: &str) -> Result<(), Failure> {
        self.write_page(&txweir::lab::trial::html(report_json))
    }

    /// Writes a page.
    pub fn write_page(&self, page: &str) -> Result<(), Failure> {
        fs::write(self.0, page).map_err(|e| Failure::failed(format!("{}: {e}", self.0.display())))
    }
}
