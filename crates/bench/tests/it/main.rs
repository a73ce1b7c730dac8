//! Every experiment, whole: the rows that miss their bands, and the picture in the documents.

mod bql;
mod fairsend;
mod mqprio;
mod prioack;
mod rows;
