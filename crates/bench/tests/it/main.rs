//! Experiments, whole: the rows that miss their bands, and the picture in the documents.
//! `make test` runs those that take seconds, `TXWEIR_ROWS=all` every one.

mod bql;
mod fairsend;
mod mqprio;
mod prioack;
mod processes;
mod rows;
